"""Typed graphs, which have nodes and edges of several types: what their data sets, task and baselines share."""
