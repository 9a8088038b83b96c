"""What a client knows of ratings: shards, biases, features, the graph, what is learnt of users elsewhere."""
