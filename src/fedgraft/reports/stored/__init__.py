"""Stored runs read back: compared, grouped by seed, with intervals."""
