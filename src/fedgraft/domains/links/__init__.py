"""Links: which pairs of a client's nodes are joined by an edge."""
