"""Flower by its public interface: apps that carry our messages, and its simulation with a node for each client."""
