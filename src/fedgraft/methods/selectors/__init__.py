"""Client selectors, one per file."""
