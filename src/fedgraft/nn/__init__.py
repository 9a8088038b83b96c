"""Layers and sparse products, their gradients and operation counts."""
