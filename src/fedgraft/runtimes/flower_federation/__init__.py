"""Clients at Flower nodes: what goes between the server and a node, a node's own store, and the server's end."""
