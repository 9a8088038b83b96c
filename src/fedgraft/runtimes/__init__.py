"""Where clients live: one runtime a file."""
