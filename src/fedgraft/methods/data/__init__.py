"""Data sets: one file each; they hand over one shard per client."""

from typing import Any

from fedgraft.domains.graphs.tu_sets import NUMBERED, SETS, SETTINGS
from fedgraft.domains.nodes.reading.pyg_sets import SETS as NODE_SETS

TYPED_SETS = ("acm", "dblp", "aminer", "freebase", "yelp", "academic", "imdb", "imdb_nshe")
"""Published typed graphs by the names that recipes use; what reads them takes long to import."""
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: ("tu", {"sets": name}) for name in (*SETTINGS, *SETS)},
    **{name: ("tu", {"sets": name, "labels": "numbers"}) for name in NUMBERED},
    **{name: ("pyg_nodes", {"set": name}) for name in NODE_SETS},
    **{name: ("typed_sets", {"set": name}) for name in TYPED_SETS},
}
"""Names beside those of the files: a class by its file, and options that the name stands for."""
