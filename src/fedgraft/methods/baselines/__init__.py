"""Baselines: one file each; what a person would try first, on the same split."""
