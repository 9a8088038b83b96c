"""What edges carry beside their ends: columns, weights, times, directions; for all domains of graphs."""
