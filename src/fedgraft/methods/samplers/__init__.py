"""On what: one sampler a file."""
