"""Networks of a client's own that refine a model's answers, by its nodes and what its part of the graph looks like.

Source: Li et al., "AdaFGL", ICDE 2024, Eq. (7)-(17); the authors' code (layers, losses).
"""

import itertools
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from fedgraft.domains.nodes.training.topology import Topology, cosines
from fedgraft.nn import flops
from fedgraft.nn.layers import linear, row_linear
from fedgraft.nn.propagate import States

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
