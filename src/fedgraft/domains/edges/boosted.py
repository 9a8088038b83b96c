"""Boosted trees on what is read of an edge without any state of its ends: what baselines of edges fit."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedgraft.contracts.labels import Floats, Labels
from fedgraft.domains.edges.history import history_of
from fedgraft.domains.edges.shards import EdgeShard
from fedgraft.domains.nodes.training.boosted import Boosted


@dataclass(frozen=True)
class BoostedEdges(Boosted):
    """As `Boosted`, on an edge's own columns, its history, and features of both ends; of unknown ones zeros."""

    def score(self, shards: Sequence[EdgeShard]) -> dict[str, float]:
        """Accuracy over all clients' validation and test edges; of numbers the RMSE."""
        return self.judged(shards, shards[0].labels)

    @abstractmethod
    def judged(self, shards: Sequence[EdgeShard], labels: Labels) -> dict[str, float]:
        """Return the metric of a kind of labels."""

    def answers(self, shard: EdgeShard, labels: Labels) -> Floats:
        """Return probabilities of every edge, [edges, classes], or numbers, [edges]; there is one that trains."""
        graph = shard.graph
        features = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
        features = np.concatenate([features, np.zeros((1, graph.width), np.float32)])
        ends = np.where((shard.ends >= 0) & (shard.ends < graph.own), shard.ends, graph.own)
        columns = np.hstack([shard.columns, history_of(shard), features[ends[0]], features[ends[1]]])
        train, chosen_on = shard.rows("train"), shard.rows("validation")
        chosen_on = chosen_on if len(chosen_on) else train
        if not shard.classes:
            return self.chosen_numbers(columns, shard.label, train, chosen_on, labels)
        return self.chosen(columns, shard.label, train, chosen_on, len(shard.classes), labels)
