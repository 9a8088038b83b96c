"""Which of a client's nodes hear from which, by its edges and by how a model answers for them.

With Y a model's answers, S is 1 where two nodes' answers point the same way, and nodes hear from each other along

    P = D^-1/2 (a A + (1 - a) S + I) D^-1/2,    D the sums of rows

Source: Li et al., "AdaFGL", ICDE 2024, Eq. (5)-(6), and homophily confidence score; the authors' code.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from fedgraft.contracts.values import Indices
from fedgraft.nn.propagate import States

EDGES: Final = 0.5
"""a: how much edges weigh against answers."""
ALIKE: Final = 0.999
"""Cosine of two answers from which on they are alike (code)."""
STEPS: Final = 10
"""Steps of label propagation (code)."""
KEPT: Final = 0.5
"""Share of what labels said at first in each step (code)."""


@dataclass(frozen=True, eq=False)
class Topology:
    """What a client makes of its part of the graph by a model's answers.

    Args:
        answers: Y, float32 [nodes, classes].
        matrix: P, float32 [nodes, nodes].
        confidence: in [0, 1], how well labels are told by those of neighbours.
    """

    answers: Tensor
    matrix: Tensor
    confidence: float

    def to(self, device: torch.device) -> "Topology":
        """Return the same on a device."""
        return Topology(self.answers.to(device), self.matrix.to(device), self.confidence)


@dataclass(eq=False)
class View:
    """What a client keeps for networks that refine a model's answers.

    Args:
        edges: between own nodes, [own, own] in CSR, ones.
        inputs: features of own nodes.
        model: the parameters of the model that `topology` was made with.
        topology: the latest.
    """

    edges: Any
    inputs: States | None = None
    model: list[Tensor] = field(default_factory=list)
    topology: Topology | None = None


def topology(answers: Tensor, edges: Any, label: Indices, train: Indices) -> Topology:
    """Return the topology of a client: its edges [nodes, nodes] in CSR, labels and training nodes."""
    with torch.no_grad():
        weights = EDGES * torch.from_numpy(edges.toarray()).float() + (1 - EDGES) * (cosines(answers) > ALIKE).float()
    return Topology(answers, normalised(weights), confidence(edges, label, train, answers.shape[1]))


def cosines(answers: Tensor) -> Tensor:
    """Return the cosines of all pairs of rows, float [nodes, nodes], 0 of a row with itself."""
    units = answers / answers.norm(dim=1, keepdim=True).clamp(min=1e-9)
    found: Tensor = (units @ units.t()).fill_diagonal_(0.0)
    return found


def normalised(weights: Tensor) -> Tensor:
    """Return D^-1/2 (weights + I) D^-1/2."""
    looped = weights + torch.eye(len(weights))
    scale = looped.sum(1).rsqrt()
    return scale[:, None] * looped * scale


def confidence(edges: Any, label: Indices, train: Indices, classes: int) -> float:
    """Return the share of training nodes whose class label propagation tells from the others' half.

    Every second training node hides its label, then the others; 1/2 where there are too few to tell.
    """
    right, halves = 0, [(train[::2], train[1::2]), (train[1::2], train[::2])]
    if len(train) < 2:
        return 0.5
    for known, hidden in halves:
        told = propagated(edges, label, known, classes)[hidden]
        right += int((told.argmax(1) == label[hidden]).sum())
    return right / len(train)


def propagated(edges: Any, label: Indices, known: Indices, classes: int) -> NDArray[np.float32]:
    """Return what label propagation says of every node, float32 [nodes, classes]; others begin with equal shares."""
    looped = edges + sparse.identity(edges.shape[0], np.float32, "csr")
    scale = sparse.diags(1 / np.sqrt(np.asarray(looped.sum(1)).ravel()))
    matrix = scale @ looped @ scale
    first = np.full((edges.shape[0], classes), 1 / classes, np.float32)
    first[known] = np.eye(classes, dtype=np.float32)[label[known]]
    said = first
    for _ in range(STEPS):
        said = np.asarray(KEPT * first + (1 - KEPT) * (matrix @ said), np.float32)
    return said
