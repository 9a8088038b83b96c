"""Sums of replies of which no single one is seen, with noise or without."""
