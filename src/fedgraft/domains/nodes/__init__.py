"""One graph cut over clients: reading it, dealing its nodes, each client's part of it."""
