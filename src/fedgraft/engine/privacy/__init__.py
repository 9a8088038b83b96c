"""Privacy: what may leave a client, sums of updates, the noise that they hold, and how much of it is spent."""
