"""Nodes as values: shards, their features and parts, measures of their classes."""
