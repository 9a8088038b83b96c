"""Codecs, one per file."""
