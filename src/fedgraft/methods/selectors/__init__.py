"""Who trains: one client selector per file."""
