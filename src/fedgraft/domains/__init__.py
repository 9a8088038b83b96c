"""Shards, models and measures that tasks, data and baselines of one kind share."""
