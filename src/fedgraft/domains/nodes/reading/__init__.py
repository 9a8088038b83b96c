"""Nodes as they come: tables, PyTorch Geometric's objects and data sets, queries."""
