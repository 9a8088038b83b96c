"""Server optimisers, one per file."""
