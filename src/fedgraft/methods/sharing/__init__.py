"""Shared how: one sharing method a file."""
