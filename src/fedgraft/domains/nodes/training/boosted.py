"""Boosted trees on nodes' features and on aggregates of their own edges: what baselines without a network fit."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, MinLen
from numpy.typing import NDArray

from fedgraft.contracts.labels import Floats, Labels
from fedgraft.contracts.ranges import Checked, PositiveFloat, PositiveInt
from fedgraft.contracts.values import Indices
from fedgraft.domains.nodes.base.shards import LabelledNodes, NodeShard, judges
from fedgraft.domains.nodes.training.perceptron import ACCURACY, rated, widened
from fedgraft.wire.layouts import Array


def edge_aggregates(graph: LabelledNodes) -> Floats:
    """Return float64 [nodes, columns], of each direction that edges of the graph have, first those that come in.

    A direction has the number of edges, the number of others at them, and of each column that edges carry the sum,
    mean, least, largest and standard deviation; of no edge these are nan, but the sum, which is 0. A client's edges to
    nodes of others are among them. `edge_rows.weight` is not read: an edge is one edge.
    """
    nodes, rows = len(graph.label), graph.edge_rows
    receiver = np.repeat(np.arange(nodes), graph.degree)
    if rows is None:
        return _of_direction(receiver, graph.senders, np.zeros((len(receiver), 0)), nodes)
    directions = [rows.along] if rows.along.all() else [rows.along, ~rows.along]
    return np.hstack([_of_direction(receiver[way], graph.senders[way], rows.values[way], nodes) for way in directions])


def _of_direction(receiver: Indices, sender: NDArray[np.integer], values: NDArray[np.floating], nodes: int) -> Floats:
    """Figures of edges to receivers, which ascend, [nodes, 2 + 5 columns]."""
    count = np.bincount(receiver, minlength=nodes)
    pairs = np.unique(np.stack([receiver, sender], axis=1), axis=0)
    figures = [count, np.bincount(pairs[:, 0], minlength=nodes)]
    some = np.flatnonzero(count)
    starts = (np.cumsum(count) - count)[some]
    for column in values.T.astype(np.float64):
        total = np.bincount(receiver, column, nodes)
        mean, least, largest, spread = np.full((4, nodes), np.nan)
        mean[some] = total[some] / count[some]
        off = np.square(column - mean[receiver])
        spread[some] = np.sqrt(np.bincount(receiver, off, nodes)[some] / count[some])
        if len(some):
            least[some], largest[some] = (each.reduceat(column, starts) for each in (np.minimum, np.maximum))
        figures += [total, mean, least, largest, spread]
    return np.stack(figures, axis=1).astype(np.float64)


@dataclass(frozen=True)
class Boosted(Checked):
    """scikit-learn's `HistGradientBoostingClassifier`, whose rate, leaves and number of trees validation chooses.

    Every pair of `rates` and `leaves` is fitted with `trees` trees, and judged after each tenth of them; of equally
    good settings the first. Columns are those of `edge_aggregates` and the nodes' features, dense. Numbers are told by
    `HistGradientBoostingRegressor`.
    """

    rates: Annotated[tuple[PositiveFloat, ...], MinLen(1)] = (0.03, 0.1)
    leaves: Annotated[tuple[Annotated[int, Ge(2)], ...], MinLen(1)] = (7, 31)
    trees: PositiveInt = 100

    def probabilities(self, graph: NodeShard, labels: Labels = ACCURACY) -> Floats:
        """Return those of every node, [nodes, classes]; the graph has a training node."""
        features = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
        columns = np.hstack([edge_aggregates(graph), features])
        return self.chosen(columns, graph.label, graph.rows("train"), judges(graph), len(graph.classes), labels)

    def chosen(
        self, columns: Array, label: Array, train: Indices, chosen_on: Indices, classes: int, labels: Labels
    ) -> Floats:
        """Return answers to all rows, [rows, classes], of trees that were fitted to some rows and chosen on others.

        Args:
            columns: float32 or float64 [rows, width].
            label: int64 [rows], classes.
            train: int64 [n], at least one row.
            chosen_on: int64 [n].
            classes: how many there are.
            labels: their kind, by whose metric settings are chosen.
        """
        from sklearn.ensemble import HistGradientBoostingClassifier

        known, places = np.unique(label[train], return_inverse=True)
        every: Floats = np.zeros((len(columns), classes))
        if len(known) == 1:
            every[:, known[0]] = 1
            return every
        staged = self._staged(HistGradientBoostingClassifier, "staged_predict_proba", columns, train, places)
        told = (widened(shares, known, classes) for shares in staged)
        return _best(told, every, lambda shares: rated(labels, shares[chosen_on], label[chosen_on]))

    def chosen_numbers(
        self, columns: Array, label: Array, train: Indices, chosen_on: Indices, labels: Labels
    ) -> Floats:
        """Return numbers of all rows, float64 [rows], of regression trees likewise; `label` is float64 [rows]."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        staged = self._staged(HistGradientBoostingRegressor, "staged_predict", columns, train, label[train])
        mean = np.full(len(columns), label[train].mean())
        return _best(staged, mean, lambda told: rated(labels, told[chosen_on], label[chosen_on]))

    def _staged(self, make: Any, tell: str, columns: Array, train: Indices, wanted: Array) -> Iterator[Floats]:
        """What trees of each setting tell of all rows, after each tenth of them."""
        for rate, leaves in product(self.rates, self.leaves):
            model = make(
                learning_rate=rate, max_leaf_nodes=leaves, max_iter=self.trees, early_stopping=False, random_state=0
            ).fit(columns[train], wanted)
            for stage, told in enumerate(getattr(model, tell)(columns), 1):
                if stage % max(1, self.trees // 10) == 0 or stage == self.trees:
                    yield told


def _best(every: Iterable[Floats], best: Floats, how_good: Callable[[Floats], float]) -> Floats:
    """Return the first of the best answers, or what was the best before where no score is a number."""
    most = -np.inf
    for told in every:
        if (good := how_good(told)) > most:
            best, most = told, good
    return best
