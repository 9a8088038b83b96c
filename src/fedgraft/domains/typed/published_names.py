"""The names of published typed graphs, apart from what reads them, which takes long to import."""

NAMES = ("acm", "dblp", "aminer", "freebase", "yelp", "academic", "imdb", "imdb_nshe")
"""The sets by the names that recipes use."""
