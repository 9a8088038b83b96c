"""A domain for whatever has labels: a shard and a whole task, to which another domain adds what its things are."""
