"""The server's half of a round."""
