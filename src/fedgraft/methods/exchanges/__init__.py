"""Exchanges: what clients tell each other of nodes."""
