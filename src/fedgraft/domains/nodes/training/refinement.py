"""Networks of a client's own that refine a model's answers, by its nodes and what its part of the graph looks like.

Source: Li et al., "AdaFGL", ICDE 2024, Eq. (7)-(17); the authors' code (layers, losses).
"""

import itertools
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from fedgraft.contracts.values import Indices
from fedgraft.nn import flops
from fedgraft.nn.layers import linear, row_linear
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


HOPS: Final = 3
"""Hops that features are taken along the topology (code)."""


class Said(NamedTuple):
    """Logits of all nodes, [nodes, classes] each: of smoothed features, twice, of own ones, and of messages."""

    alike: Tensor
    smoothed: Tensor
    own: Tensor
    messages: Tensor


class Refinement(nn.Module):
    """Four perceptrons: one for where neighbours are alike, three for where they are not.

    Attributes:
        active: float32 [1], 1 once it answers in place of the model that it refines.
    """

    active: Tensor

    def __init__(self, features: int, hidden: int, classes: int, dropout: float, g: torch.Generator) -> None:
        super().__init__()
        widths, deep = (hidden, classes), (hidden, hidden, classes)
        self.alike = Perceptron(features, widths, HOPS, dropout, g)
        self.smoothed = Perceptron(features, deep, HOPS, dropout, g)
        self.own = Perceptron(features, deep, 0, dropout, g)
        self.messages = Perceptron(features, deep, HOPS, dropout, g)
        self.signal = nn.PReLU()
        self.register_buffer("active", torch.zeros(1))

    @property
    def answers(self) -> bool:
        """True once it answers."""
        return bool(self.active > 0.5)

    def forward(self, inputs: States, topology: Topology) -> Said:
        """Return logits of all nodes from their features, [nodes, features]."""
        said = (each(inputs, topology.matrix) for each in (self.alike, self.smoothed, self.own, self.messages))
        alike, smoothed, own, messages = said
        return Said(alike, smoothed, own, self._heard(messages))

    def _heard(self, states: Tensor) -> Tensor:
        """States with the messages of nodes that are alike, less those of nodes that are not, [nodes, classes]."""
        signal = signed(cosines(states.softmax(1)))
        flops.count(2 * (1 + torch.is_grad_enabled()) * signal.numel() * states.shape[1])
        near, far = ((self.signal(sign * signal) @ states).softmax(1) for sign in (1, -1))
        heard: Tensor = (near - far + states) / 2
        return heard


class Perceptron(nn.Module):
    """Layers over features smoothed over 0 to so many hops, side by side."""

    def __init__(self, features: int, widths: tuple[int, ...], hops: int, dropout: float, g: torch.Generator) -> None:
        super().__init__()
        self.first = nn.ModuleList(row_linear(features, widths[0], g, bias=not hop) for hop in range(hops + 1))
        pairs = itertools.pairwise(widths)
        self.further = nn.ModuleList(linear(before, after, g) for before, after in pairs)
        self.bend, self.dropout = nn.PReLU(), dropout

    def forward(self, inputs: States, matrix: Tensor) -> Tensor:
        """Return float32 [nodes, widths[-1]]: features are mapped first, then smoothed, which is the same."""
        state: Tensor = self.first[-1](inputs)
        for layer in reversed(self.first[:-1]):
            flops.count((1 + torch.is_grad_enabled()) * matrix.shape[0] * state.numel())
            state = matrix @ state + layer(inputs)
        for layer in self.further:
            state = layer(nn.functional.dropout(self.bend(state), self.dropout, self.training))
        return state


def signed(similarity: Tensor) -> Tensor:
    """Return similarities [nodes, nodes] from -1, the least, by 0, their mean, to 1, the most; 1 of a node itself."""
    mean, most = similarity.mean(), similarity.max()
    above = (similarity - mean) / (most - mean).clamp(min=1e-9)
    below = (similarity - mean) / mean.clamp(min=1e-9)
    return torch.where(similarity > mean, above, below).fill_diagonal_(1.0)


def losses(said: Said, topology: Topology, nodes: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of four cross-entropies of some nodes, [n], and how far the first is from the answers refined."""
    four = [nn.functional.cross_entropy(each[nodes], label, reduction="none") for each in said]
    return torch.stack(four).sum(0), (said.alike - topology.answers).square().mean()


def refined(said: Said, topology: Topology) -> Tensor:
    """Return probabilities of all nodes, [nodes, classes], by how alike neighbours are."""
    homophilous = (said.alike.softmax(1) + topology.answers) / 2
    other = torch.stack([said.smoothed, said.own, said.messages]).softmax(2).mean(0)
    return topology.confidence * homophilous + (1 - topology.confidence) * other
