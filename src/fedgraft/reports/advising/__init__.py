"""Advice on a user's own data: whether to federate, with which recipe, and what its bytes buy."""
