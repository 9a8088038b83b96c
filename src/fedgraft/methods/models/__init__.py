"""Graph encoders, one a file."""
