"""Logistic regression on features and their means over neighbourhoods: a linear model of the whole graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import MinLen
from numpy.typing import NDArray
from scipy import optimize, sparse
from scipy.special import softmax

from fedgraft.contracts.labels import Labels
from fedgraft.contracts.ranges import NonNegativeInt, PositiveFloat, PositiveInt
from fedgraft.domains.examples import scaled
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.constant import Answering
from fedgraft.domains.nodes.base.shards import NodeShard, judges, pooled
from fedgraft.domains.nodes.training.perceptron import rated, widened

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]


@dataclass(frozen=True)
class SmoothedFeatures(Answering[NodeShard]):
    """Logistic regression on [X, SX, S^2 X] of the whole graph, at one place; regularisation tuned on validation.

    X has a row of features per node, scaled to length one; S is the adjacency with self loops, its rows scaled to sum
    1, so SX holds means over a node and its neighbours.

    Source: Wu et al., "Simplifying Graph Convolutional Networks", ICML 2019, sec. 2.2, on all powers side by side as
        in Frasca et al., "SIGN", arXiv:2004.11198, here without hidden layers.
    Differs: S is normalised by rows, not symmetrically, so that all entries stay means. Fitted by L-BFGS from the
        strongest penalty to the weakest, each from the one before. [X, SX, S^2 X] W = X W_0 + S (X W_1 + S X W_2) is
        multiplied from the right, so that the products, which are nearly dense, are never made.

    Args:
        hops: the highest power of S, >= 0; 0 is logistic regression without edges.
        penalties: grid of scikit-learn's C, each > 0: the summed loss counts C times, half the squared weights once.
            Between the best on validation nodes of PubMed, Cora, Coauthor CS and Amazon Photo (1 to 10) and around.
        iterations: most of each fit, >= 1; the weakest penalties need more and gain nothing by them.

    Needs: all features, edges and training labels at one place: not federated. Features of test nodes take part.
    Cost: none counted, as nothing is sent.
    """

    task: ClassVar[str] = "node"
    labels: ClassVar[Labels] = Classes()
    default: ClassVar[bool] = True

    hops: NonNegativeInt = 2
    penalties: Annotated[tuple[PositiveFloat, ...], MinLen(1)] = (0.3, 1.0, 3.0, 10.0)
    iterations: PositiveInt = 200

    def views(self, shards: Sequence[NodeShard]) -> Sequence[NodeShard]:
        """Return all nodes as one client's. Raises `InputError` if none of them is for training."""
        return [pooled(shards)]

    def answers(self, graph: NodeShard, labels: Labels) -> Singles:
        """Return probabilities, [nodes, classes]; of equally good penalties by the metric the strongest."""
        fit, chosen_on = _Fit(graph, self.hops), judges(graph)
        best, best_right = np.zeros((graph.own, len(graph.classes)), np.float32), -np.inf
        weights = np.zeros(fit.size)
        for penalty in sorted(self.penalties):
            weights = fit.minimise(weights, penalty, self.iterations)
            predicted = widened(softmax(fit.scores(weights), axis=1), fit.classes, len(graph.classes))
            right = rated(labels, predicted[chosen_on], graph.label[chosen_on])
            if right > best_right:
                best, best_right = predicted, right
        return best


class _Fit:
    """One regression: weights are float64 [(1 + hops) * f + 1, classes of training nodes], flat, biases last."""

    def __init__(self, graph: NodeShard, hops: int) -> None:
        features = self.features = scaled(graph.features, 1.0) if graph.scale_rows else graph.features
        self.transposed = features.T if isinstance(features, np.ndarray) else features.T.tocsr()
        edges = (graph.edge_weight, graph.senders, graph.pointers)
        self.adjacency = sparse.csr_matrix(edges, shape=(graph.own, graph.own))
        self.share = (1 / (graph.weighted_degree.astype(np.float64) + 1)).astype(np.float32)[:, None]
        self.train, self.blocks = graph.rows("train"), 1 + hops
        self.classes, self.wanted = np.unique(graph.label[self.train], return_inverse=True)
        self.size = (self.blocks * graph.width + 1) * len(self.classes)

    def scores(self, weights: Floats) -> Singles:
        """[nodes, classes], before the softmax."""
        table = weights.reshape(-1, len(self.classes)).astype(np.float32)
        # One product with all blocks' weights side by side reads the features once.
        *nearer, total = np.split(self.features @ np.hstack(np.split(table[:-1], self.blocks)), self.blocks, axis=1)
        for part in reversed(nearer):
            total = part + (self.adjacency @ total + total) * self.share
        scores: Singles = total + table[-1]
        return scores

    def loss(self, weights: Floats, penalty: float) -> tuple[float, Floats]:
        """The penalised mean loss of training nodes, and its gradient."""
        scores, rows = self.scores(weights)[self.train], np.arange(len(self.train))
        scores -= scores.max(axis=1, keepdims=True)
        shares = np.exp(scores)
        sums = shares.sum(axis=1, keepdims=True)
        loss = float((np.log(sums[:, 0]) - scores[rows, self.wanted]).mean(dtype=np.float64))
        shares /= sums
        shares[rows, self.wanted] -= 1
        back = np.zeros((len(self.share), len(self.classes)), np.float32)
        back[self.train] = shares / len(rows)
        biases, parts = back.sum(axis=0, keepdims=True), [back]
        for _ in range(1, self.blocks):
            back = back * self.share
            back = self.adjacency @ back + back
            parts.append(back)
        blocks = np.split(self.transposed @ np.hstack(parts), self.blocks, axis=1)
        gradient = np.vstack([*blocks, biases]).astype(np.float64).ravel()
        ridge = 1 / (penalty * len(rows))
        inner = slice(0, self.size - len(self.classes))
        gradient[inner] += ridge * weights[inner]
        return loss + ridge / 2 * float(weights[inner] @ weights[inner]), gradient

    def minimise(self, start: Floats, penalty: float, iterations: int) -> Floats:
        """Return the best weights."""
        options = {"maxiter": iterations}
        result = optimize.minimize(self.loss, start, (penalty,), jac=True, method="L-BFGS-B", options=options)
        weights: Floats = result.x
        return weights
