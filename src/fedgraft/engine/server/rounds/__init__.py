"""The steps of one round: broadcast, replies, scores, merging, and the step of the server optimizer."""
