"""A client's half of a round: bytes in, bytes out."""
