"""A client's ratings: shards, biases, features, the graph, statistics of users elsewhere."""
