"""A client's graph while it trains: drawn neighbours, halos, smoothed states, losses."""
