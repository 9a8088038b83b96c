"""The run: set-up, rounds one after the other, when it ends, and what follows the last round."""
