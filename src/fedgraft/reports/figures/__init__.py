"""Figures of stored runs."""
