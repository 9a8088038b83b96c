"""Shards, models and measures that tasks, data and yardsticks of one kind share."""
