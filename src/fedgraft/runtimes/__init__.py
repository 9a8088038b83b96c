"""Runtimes, one per file: places where clients live."""
