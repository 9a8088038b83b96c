"""Boosted trees on an edge's columns and history, all edges in one place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedgraft.domains.edges.history import BoostedEdges
from fedgraft.domains.edges.shards import EdgeShard, merge_edges


@dataclass(frozen=True)
class EdgeBoosting(BoostedEdges):
    """Boosted trees on an edge's own columns, on what came before it, and on features of its ends; in one place.

    What came before is counted exactly, at its source, at its target and between both, as the task `edge` reads it.

    Source: scikit-learn's `HistGradientBoostingClassifier`, and of numbers its regressor, after Ke et al., "LightGBM",
        NeurIPS 2017.
    Differs: the number of trees is chosen by the task's metric on validation edges, in tenths of the most.

    Args:
        rates: as of `boosting`.
        leaves: as of `boosting`.
        trees: as of `boosting`.

    Needs: all edges and training labels at one place: not federated.
    Cost: none counted, as nothing is sent.
    """

    task: ClassVar[str] = "edge"

    def views(self, shards: Sequence[EdgeShard]) -> Sequence[EdgeShard]:
        """Return all edges as one client's."""
        return [merge_edges(shards)]
