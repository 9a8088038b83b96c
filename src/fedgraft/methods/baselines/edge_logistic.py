"""Logistic regression on an edge's own columns, all edges in one place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import MinLen

from fedgraft.contracts.labels import Floats, Labels
from fedgraft.contracts.ranges import PositiveFloat
from fedgraft.domains.edges.shards import EdgeShard, merge_edges
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.constant import Answering
from fedgraft.domains.nodes.training.perceptron import rated, widened
from fedgraft.errors import InputError


@dataclass(frozen=True)
class EdgeLogistic(Answering[EdgeShard]):
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
    labels: ClassVar[Labels] = Classes()

    strengths: Annotated[tuple[PositiveFloat, ...], MinLen(1)] = (0.01, 0.1, 1.0, 10.0)

    def views(self, shards: Sequence[EdgeShard]) -> Sequence[EdgeShard]:
        """Return all edges as one client's. Raises `InputError` for numbers."""
        if not (whole := merge_edges(shards)).classes:
            raise InputError("baseline 'edge_logistic' is for classes; labels are numbers.")
        return [whole]

    def answers(self, shard: EdgeShard, labels: Labels) -> Floats:
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
