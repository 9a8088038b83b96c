"""To solve what: one task a file."""
