"""Secrets: sums that nobody can take apart, noise that bounds what they tell, and the reckoning of that bound."""
