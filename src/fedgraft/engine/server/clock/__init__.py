"""The simulated clock: speeds of clients, and who is disconnected."""
