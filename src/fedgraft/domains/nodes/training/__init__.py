"""What a model is trained on and how: a client's graph, drawn neighbours, halos, smoothed states."""
