"""Learning agents that methods are built from."""
