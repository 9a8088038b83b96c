"""What a message can tell of one client's data, in a dozen words: who makes a message says which of them it needs."""

from types import MappingProxyType
from typing import Final

CAPABILITIES: Final = MappingProxyType(
    {
        "features": "features of single nodes or edges, or sums of few of these",
        "states": "hidden states of single nodes",
        "labels": "labels of single examples, or errors that tell them",
        "answers": "what the model answers for single nodes",
        "rows": "which nodes of others its own are joined to, the degrees of its own there, and what a step reads",
        "users": "which users it has, and how these rate",
        "ids": "ids of nodes or users, hashed or masked, to be matched with those of others",
        "columns": "statistics of the columns of its tables, and names of classes and categories",
        "sizes": "how many training examples and nodes it has",
        "class_counts": "how many examples it has of each class, or what tells it",
        "sums": "sums over its examples, such as moments and products of features",
        "prototypes": "means of hidden states, of all examples or of each class",
        "losses": "mean losses of its training examples, or quantiles",
        "scores": "how good a model is on its held-out examples",
        "update": "what its training changed in the model",
    }
)
"""{capability: what is told}."""
COUNTED: Final = frozenset({"users", "class_counts", "sums", "prototypes"})
"""Those of counts, sums and means over groups of examples, which may be small."""


HALO: Final = "halo"
MATCHING: Final = "matching"
EVALUATION: Final = "evaluation"
"""Purposes of rows of nodes, which travel with models, of ids that sites match, and of scores."""
PURPOSES_OF_CLIENTS: Final = ("statistics", "probe", "model", HALO, EVALUATION, "smoothing", "masking", MATCHING)
"""Purposes for which clients send anything."""
