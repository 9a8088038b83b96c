"""FedGTA: a model for every client, averaged over those whose nodes have neighbours like its own."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self, TypedDict

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray
from scipy import sparse, special

from fedgraft.contracts import (
    LocalGraph,
    MovableSharing,
    PersonalSharing,
    Trainer,
    Update,
)
from fedgraft.contracts.abilities.graphs import LocalGraphTask
from fedgraft.contracts.facts import TaskFacts
from fedgraft.contracts.ranges import NonNegativeInt, PositiveFloat, PositiveInt, Proportion
from fedgraft.errors import require
from fedgraft.nn import flops
from fedgraft.wire.layouts import Arrays, Layout, Spec, Tree

Floats = NDArray[np.float64]

CONFIDENCE, MOMENTS = "topology.confidence", "topology.moments"
"""Names of what is sent up beside the update."""
LARGEST = 60.0
"""Most that counts of a logarithm, so that no number is too large; ours."""
KINDS = ("raw", "central", "hybrid")


class State(TypedDict):
    """State at the server: the last model of each client, list [N] of the model's arrays."""

    models: list[Arrays]


@dataclass(frozen=True)
class FedGTA(
    MovableSharing[State],
    PersonalSharing[State],
):
    """FedGTA: a model for every client, averaged over those whose nodes have neighbours like its own.

    Behind its training a client propagates Y0, the labels of its training nodes and what its model tells of all others,
    over its own edges,

        Y_k = (1 - alpha) Y0 + alpha S Y_(k-1), training nodes + Y0,     S = D^-1/2 (A + I) D^-1/2,

    and sends, beside its update, two statistics of P = softmax(Y_hops), labels put back in:

        H = sum_v d_v sum_c (1/e + Q_vc log Q_vc),    Q = softmax(Y_hops / temperature), d = degree,

    its local smoothing confidence, and its mixed moments, means over nodes of P^k, and of (P - mean P)^k, per class and
    for k = 1 .. orders. The server averages for each client the models of all whose moments have a cosine above
    `threshold` with its own, itself among them, weighted by H.

    Source: Li et al., "FedGTA: Topology-aware Averaging for Federated Graph Learning", PVLDB 17(1), 2023; what is
        propagated, how often, and the softmaxes as in the authors' code (xkLi-Allen/FedGTA; read, not copied).
    Differs: clients send differences to the models they received, and log(1 + H), which few bits and a limit on the
        size of updates leave alone. The first central moment, which is 0, is not sent. A
        client whose moments are all 0 still counts for itself, and where nobody has an edge all count alike. OpenFGL,
        by the same authors, propagates what the model tells of training nodes, without self-loops, and nothing of
        others.

    Args:
        hops: of label propagation, >= 0; 5 (code).
        alpha: the neighbours' share in each, in [0, 1]; 0.5 (code).
        temperature: of Q, > 0; 20 (code).
        orders: of moments, >= 1, of central ones alone >= 2; 10 (OpenFGL; the first code has 20 for CiteSeer, 13 for
            PubMed).
        moments: "raw", "central" or both, "hybrid" (OpenFGL; the first code has "raw" for PubMed).
        threshold: of the cosine, in [-1, 1]; 0.5 (OpenFGL; the first code has 0.6 and 0.65).
        classes: the task's; no option.

    State: see `State`.
    Needs: a task that shows clients' parts of a graph: `node`, and `typed_node`, whose nodes metapaths join.
    Cost: the model down and its difference up, per selected client, and up (2 orders - 1) x classes + 1 numbers with
        both kinds of moments. At the server N models.
    """

    needs: ClassVar[tuple[type[Any], ...]] = (LocalGraphTask,)

    hops: NonNegativeInt = 5
    alpha: Proportion = 0.5
    temperature: PositiveFloat = 20.0
    orders: PositiveInt = 10
    moments: Literal["raw", "central", "hybrid"] = "hybrid"
    threshold: Annotated[float, Interval(ge=-1, le=1)] = 0.5
    classes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.orders > 1 or self.moments != "central", "FedGTA.orders", ">= 2 for central moments", self.orders)

    def fitted(self, facts: TaskFacts) -> Self:
        """With moments of so many classes."""
        fitted = replace(self)
        object.__setattr__(fitted, "classes", facts.node_classes)
        return fitted

    def init(self, model: Arrays, clients: int) -> State:
        """Start every client from the drawn model."""
        return {"models": [model] * clients}

    def group(self, state: State, client: int) -> int:
        """Return the client itself."""
        return client

    def model(self, state: State, group: int = 0) -> Arrays:
        """Return the client's model."""
        return state["models"][group]

    def uploads(self, model: Layout) -> Layout:
        """Return the model, H and moments."""
        count = sum(map(len, self._orders)) * self.classes
        return Layout(
            (
                *model.specs,
                Spec(CONFIDENCE, "float32", (1,), "sums"),
                Spec(MOMENTS, "float32", (count,), "class_counts"),
            )
        )

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Train, and look at the labels around each node."""
        trainer.load(received)
        trainer.run()
        graph = trainer.local_graph()
        told, degree = self._propagated(graph), np.bincount(graph.edges[1], minlength=len(graph.probabilities))
        soft, flat = (special.softmax(told / scale, axis=1) for scale in (1.0, self.temperature))
        for shares in (soft, flat):
            shares[graph.examples] = _hot(graph)
        sent = {
            CONFIDENCE: np.log1p([confidence(flat, degree)]).astype(np.float32),
            MOMENTS: self._moments(soft).astype(np.float32),
        }
        return {**trainer.difference(received), **sent}, memory

    def merge(self, state: State, updates: Sequence[Update]) -> State:
        """Average for each client that answered the models of those like it; others keep what they have."""
        weights = self._weights(updates)
        models, clients = list(state["models"]), [update.client for update in updates]
        merged: list[Arrays] = [{} for _ in updates]
        for name, first in models[clients[0]].items():
            trained = np.stack([models[update.client][name] + update.arrays[name] for update in updates])
            # Not a product of matrices: its last bits hang by the number of threads.
            means = np.einsum("ij,jk->ik", weights, trained.reshape(len(updates), -1).astype(np.float64))
            for arrays, mean in zip(merged, means, strict=True):
                arrays[name] = mean.reshape(first.shape).astype(first.dtype)
        for client, arrays in zip(clients, merged, strict=True):
            models[client] = arrays
        return {"models": models}

    def with_model(self, state: State, group: int, model: Arrays) -> State:
        """Put a model in place of a client's."""
        return {"models": [*state["models"][:group], model, *state["models"][group + 1 :]]}

    def _weights(self, updates: Sequence[Update]) -> Floats:
        """What each client's model counts in each client's, float64 [n, n]; rows sum to 1."""
        moments = np.stack([update.arrays[MOMENTS] for update in updates]).astype(np.float64)
        norms = np.linalg.norm(moments, axis=1, keepdims=True)
        units = np.divide(moments, norms, out=np.zeros_like(moments), where=norms > 0)
        alike = (np.einsum("ik,jk->ij", units, units) > self.threshold) | np.eye(len(updates), dtype=bool)
        told = np.array([update.arrays[CONFIDENCE][0] for update in updates], np.float64)
        sure = np.expm1(np.clip(told, 0, LARGEST))
        weights = alike * sure
        weights = np.where(weights.sum(1, keepdims=True) > 0, weights, alike)
        return np.asarray(weights / weights.sum(1, keepdims=True))

    def _propagated(self, graph: LocalGraph) -> Floats:
        """Y after the last hop, float64 [nodes, classes]."""
        nodes, (sender, receiver) = len(graph.probabilities), graph.edges
        start = graph.probabilities.astype(np.float64)
        start[graph.examples] = _hot(graph)
        joined = sparse.csr_matrix((np.ones(len(sender)), (receiver, sender)), shape=(nodes, nodes))
        joined = joined + sparse.identity(nodes, format="csr")
        root = sparse.diags(1 / np.sqrt(np.asarray(joined.sum(1)).ravel()))
        smooth, told = sparse.csr_matrix(root @ joined @ root), start
        for _ in range(self.hops):
            told = (1 - self.alpha) * start + self.alpha * (smooth @ told)
            told[graph.examples] += start[graph.examples]
        flops.count(self.hops * smooth.nnz * start.shape[1])
        return np.asarray(told)

    def _moments(self, shares: Floats) -> Floats:
        """Mixed moments of shares [nodes, classes], raw ones first, order by order."""
        (raw, central), away = self._orders, shares - shares.mean(0)
        return np.concatenate(
            [*((shares**order).mean(0) for order in raw), *((away**order).mean(0) for order in central)]
        )

    @property
    def _orders(self) -> tuple[range, range]:
        """Orders of raw moments, and of central ones."""
        last = self.orders + 1
        return range(1, 1 if self.moments == "central" else last), range(2, 2 if self.moments == "raw" else last)


def confidence(shares: Floats, degree: NDArray[np.int64]) -> float:
    """Return H, >= 0, of shares [nodes, classes] and degrees [nodes]."""
    return float((degree[:, None] * (1 / np.e + special.xlogy(shares, shares))).sum())


def _hot(graph: LocalGraph) -> Floats:
    """Labels of training nodes, float64 [examples, classes]."""
    return np.eye(graph.probabilities.shape[1])[graph.label]
