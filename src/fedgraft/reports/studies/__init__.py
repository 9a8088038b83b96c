"""Studies: a paper's tables, methods x seeds, resumable."""
