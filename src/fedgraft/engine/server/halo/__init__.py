"""Rows of border nodes, kept by the server and sent to the clients that need them."""
