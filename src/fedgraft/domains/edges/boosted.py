"""Boosted trees on what is read of an edge without any state of its ends: what yardsticks of edges fit."""

from dataclasses import dataclass

import numpy as np

from fedgraft.contracts.labels import Floats, Labels
from fedgraft.domains.edges.history import history_of
from fedgraft.domains.edges.shards import EdgeShard
from fedgraft.domains.nodes.training.boosted import Boosted
from fedgraft.errors import InputError


@dataclass(frozen=True)
class BoostedEdges(Boosted):
    """As `Boosted`, on an edge's own columns, its history, and features of both ends; of unknown ones zeros."""

    def answers(self, shard: EdgeShard, labels: Labels) -> Floats:
        """Return probabilities of every edge, [edges, classes]; there is one that trains.

        Raises `InputError` for numbers.
        """
        if not shard.classes:
            raise InputError("yardsticks 'edge_boosting' and 'own_edge_boosting' are for classes; labels are numbers.")
        graph = shard.graph
        features = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
        features = np.concatenate([features, np.zeros((1, graph.width), np.float32)])
        ends = np.where((shard.ends >= 0) & (shard.ends < graph.own), shard.ends, graph.own)
        columns = np.hstack([shard.columns, history_of(shard), features[ends[0]], features[ends[1]]])
        train, chosen_on = shard.rows("train"), shard.rows("validation")
        chosen_on = chosen_on if len(chosen_on) else train
        return self.chosen(columns, shard.label, train, chosen_on, len(shard.classes), labels)
