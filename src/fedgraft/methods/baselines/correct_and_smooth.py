"""Correct and smooth: a perceptron on features, then its errors and its answers spread over the whole graph."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import MinLen
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.labels import Labels
from fedgraft.contracts.ranges import NonNegativeFloat, PositiveInt, ProperFraction
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.constant import Answering
from fedgraft.domains.nodes.base.shards import NodeShard, judges, pooled
from fedgraft.domains.nodes.training.perceptron import Perceptron, rated

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CorrectAndSmooth(Answering[NodeShard]):
    """A perceptron's answers, corrected by its errors on training nodes and smoothed; all tuned on validation.

    S is D^-1/2 A D^-1/2. Correct: the errors on training nodes, E, are spread, E <- a S E + (1 - a) E_0, with those of
    training nodes put back after each step, and added to the answers, `scale` times. Smooth: training nodes get their
    labels, and all answers are spread by the same equation, clamped to [0, 1] after each step. It is PyG's
    `CorrectAndSmooth(autoscale=False)`.

    Source: Huang et al., "Combining Label Propagation and Simple Models Out-performs Graph Neural Networks", ICLR 2021,
        Eq. (4) to (9), with a fixed scale ("FDiff-scale"), and their published code, which clamps; its base model here
        is that of the baseline `mlp`.
    Differs: `alphas` and `scales` are chosen on validation accuracy, in a grid of ours.

    Args:
        alphas: grid of a, of both steps, each in [0, 1): ours.
        scales: grid of the scale, each >= 0: ours.
        steps: of each spreading, >= 1 (Huang et al.: 50).

    Needs: all features, edges and training labels at one place: not federated.
    Cost: none counted, as nothing is sent.
    """

    task: ClassVar[str] = "node"
    labels: ClassVar[Labels] = Classes()

    alphas: Annotated[tuple[ProperFraction, ...], MinLen(1)] = (0.0, 0.3, 0.5, 0.8, 0.95)
    scales: Annotated[tuple[NonNegativeFloat, ...], MinLen(1)] = (0.5, 1.0, 2.0)
    steps: PositiveInt = 50

    def views(self, shards: Sequence[NodeShard]) -> Sequence[NodeShard]:
        """Return all nodes as one client's. Raises `InputError` if none of them is for training."""
        return [pooled(shards)]

    def answers(self, graph: NodeShard, labels: Labels) -> Floats:
        """Return shares of classes, [nodes, classes]; of equally good settings by the metric the first."""
        probabilities, chosen_on = Perceptron().probabilities(graph, labels), judges(graph)
        best, best_right = probabilities, rated(labels, probabilities[chosen_on], graph.label[chosen_on])
        for correct in self.alphas:
            errors = self._spread_errors(graph, probabilities, correct)
            for scale, smooth in product(self.scales, self.alphas):
                smoothed = self._smoothed(graph, probabilities + scale * errors, smooth)
                shares = _shares(smoothed) if labels.metric != "accuracy" else smoothed
                right = rated(labels, shares[chosen_on], graph.label[chosen_on])
                if right > best_right:
                    best, best_right = shares, right
        return best

    def _spread_errors(self, graph: NodeShard, probabilities: Floats, alpha: float) -> Floats:
        """Errors spread, [nodes, classes], those of training nodes held as they are."""
        errors, train = _errors(graph, probabilities), graph.rows("train")

        def held(values: Floats) -> Floats:
            values[train] = errors[train]
            return values

        return self._spread(graph, errors, alpha, held)

    def _smoothed(self, graph: NodeShard, answers: Floats, alpha: float) -> Floats:
        """Labels and answers spread, [nodes, classes], each in [0, 1]."""
        return self._spread(graph, _labelled(graph, answers), alpha, lambda values: np.clip(values, 0, 1, out=values))

    def _spread(self, graph: NodeShard, start: Floats, alpha: float, post_step: Callable[[Floats], Floats]) -> Floats:
        """Values after `steps` steps, each followed by `post_step`; alpha 0 leaves `start`, after one `post_step`."""
        if not alpha:
            return post_step(start.copy())
        values, matrix = start, alpha * _normalised(graph)
        for _ in range(self.steps):
            values = post_step(matrix @ values + (1 - alpha) * start)
        return values


def _shares(answers: Floats) -> Floats:
    """Answers as shares: positive, and 1 in sum."""
    positive = np.maximum(answers, 1e-9)
    shares: Floats = positive / positive.sum(axis=1, keepdims=True)
    return shares


def _normalised(graph: NodeShard) -> sparse.csr_matrix:
    degree = graph.weighted_degree.astype(np.float64)
    factor = 1 / np.sqrt(np.where(degree > 0, degree, 1))
    weights = np.repeat(factor, graph.degree) * factor[graph.senders] * graph.edge_weight
    return sparse.csr_matrix((weights, graph.senders, graph.pointers), shape=(graph.own, graph.own))


def _errors(graph: NodeShard, probabilities: Floats) -> Floats:
    """What answers lack of the labels of training nodes, [nodes, classes]; 0 elsewhere."""
    errors, train = np.zeros_like(probabilities), graph.rows("train")
    errors[train] = -probabilities[train]
    errors[train, graph.label[train]] += 1
    return errors


def _labelled(graph: NodeShard, answers: Floats) -> Floats:
    """The answers, with the labels of training nodes in their place."""
    labelled, train = answers.copy(), graph.rows("train")
    labelled[train] = 0
    labelled[train, graph.label[train]] = 1
    return labelled
