"""Aggregation rules, one per file."""
