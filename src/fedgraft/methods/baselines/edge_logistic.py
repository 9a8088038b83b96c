"""Logistic regression on an edge's own columns, all edges in one place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import MinLen

from fedgraft.contracts.baseline import Baseline
from fedgraft.contracts.labels import Floats, Labels
from fedgraft.contracts.ranges import PositiveFloat
from fedgraft.domains.edges.shards import EdgeShard, merge_edges
from fedgraft.domains.labels.constant import agreement
from fedgraft.domains.nodes.training.perceptron import ACCURACY, rated, widened
from fedgraft.errors import InputError


@dataclass(frozen=True)
class EdgeLogistic(Baseline[EdgeShard]):
    """Logistic regression on what an edge carries itself, and on nothing else; in one place.

    A model that is no better has learnt nothing of the graph. Without columns it says how frequent classes are.

    Source: scikit-learn's `LogisticRegression`. Differs: the strength of its penalty is chosen by the task's metric on
        validation edges; of equally good ones the first.

    Args:
        strengths: inverses of the penalty, of which one is chosen; at least one, each > 0.

    Needs: all edges and training labels at one place: not federated.
    Cost: none counted, as nothing is sent.
    """

    task: ClassVar[str] = "edge"

    strengths: Annotated[tuple[PositiveFloat, ...], MinLen(1)] = (0.01, 0.1, 1.0, 10.0)

    def score(self, shards: Sequence[EdgeShard]) -> dict[str, float]:
        """Accuracy over all clients' validation and test edges."""
        return self.judged(shards, ACCURACY)

    def judged(self, shards: Sequence[EdgeShard], labels: Labels) -> dict[str, float]:
        """Return the metric of a kind of labels. Raises `InputError` for numbers."""
        whole = merge_edges(shards)
        if not whole.classes:
            raise InputError("baseline 'edge_logistic' is for classes; labels are numbers.")
        return agreement(labels, [whole], [self._answers(whole, labels)])

    def _answers(self, shard: EdgeShard, labels: Labels) -> Floats:
        """Probabilities of every edge, [edges, classes]; there is one that trains."""
        from sklearn.linear_model import LogisticRegression

        train, held = shard.rows("train"), shard.rows("validation")
        known, places = np.unique(shard.label[train], return_inverse=True)
        if len(known) == 1 or not shard.columns.shape[1]:
            counts = np.bincount(shard.label[train], minlength=len(shard.classes)) / len(train)
            return np.tile(counts, (len(shard.label), 1))
        held = held if len(held) else train
        fits = (
            LogisticRegression(C=strength, max_iter=1000).fit(shard.columns[train], places)
            for strength in self.strengths
        )
        every = [widened(fit.predict_proba(shard.columns), known, len(shard.classes)) for fit in fits]
        return max(every, key=lambda shares: rated(labels, shares[held], shard.label[held]))
