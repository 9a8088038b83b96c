"""Data sets: one file each; they hand over one shard per client."""
