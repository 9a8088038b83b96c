"""A federation: a server that nodes at sites call over HTTPS, what goes between them, and what a node keeps."""
