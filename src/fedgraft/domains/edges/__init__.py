"""Edges that have labels: one client's own part of a graph, and what it tells of edges of it."""
