"""Recipes as they are written: sections, options, methods found by name. Recipes that come with fedgraft lie beside."""
