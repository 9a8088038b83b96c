"""Rows of boundary nodes, kept by the server and sent to the clients that need them."""
