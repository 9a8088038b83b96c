"""Flower's simulation: a virtual node for each client, on this machine."""
