"""What is sent: one codec a file."""
