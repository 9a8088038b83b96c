"""Inputs: what a model reads of nodes' features."""

from typing import Any

PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "last_hop": ("propagated", {"hop_pooling": "last"}),
    "neighbour_sums": ("propagated", {"aggregates": True}),
}
"""Those of SGC (Wu et al., ICML 2019) and of FedGCN (Yao et al., NeurIPS 2023)."""
