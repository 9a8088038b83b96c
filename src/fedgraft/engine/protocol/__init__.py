"""The protocol: each kind of message between server and clients, and the one way out of a client."""
