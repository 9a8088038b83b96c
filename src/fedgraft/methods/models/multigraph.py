"""Multigraph: messages along edges that carry numbers, apart for each direction, averaged at their receivers."""

from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import EdgeLayeredEncoder, StackEncoder
from fedgraft.nn.edge_messages import Fan, edge_messages, means_and_maxima
from fedgraft.nn.layers import MakeLinear, linear
from fedgraft.nn.propagate import Block, Sparse, States


@dataclass(frozen=True)
class Multigraph(StackEncoder, EdgeLayeredEncoder):
    """Multigraph: messages along edges that carry numbers, apart for each direction, averaged at their receivers.

    Layer: h <- W_own h + b + sum over directions d of W_d (mean over edges e of d, from v, of relu(U_d h_v + E_d e +
    b_d)). The directions are along an edge and back; a receiver without edges of one gets zero of it. Edges of the same
    two nodes each send a message. Where edges have no direction all go along; where they carry nothing there is no E_d.
    With `maxima` a direction also adds M_d (max over these edges, number by number): one edge among a hundred that is
    unlike the others is lost in a mean.

    Source: Egressy et al., "Provably Powerful Graph Neural Networks for Directed Multigraphs", AAAI 2024 (messages
        against the direction); Hu et al., "Strategies for Pre-training Graph Neural Networks", ICLR 2020 (GINE's
        messages); Corso et al., "Principal Neighbourhood Aggregation for Graph Nets", NeurIPS 2020 (maxima beside
        means).
    Differs: means and maxima in place of sums or PNA's twelve, no ego ids, no port numbers. Of neighbours that were
        drawn the mean is over the drawn edges of a direction, each of which stands for as many of its receiver's; the
        largest is that of the drawn edges.

    Args:
        hidden: width of every layer and of its messages, >= 1, or a list of widths, one a layer (ours: 32).
        layers: >= 1; not used where `hidden` is a list.
        maxima: whether a receiver is also told the largest of its messages of each direction, number by number.
    """

    stochastic: ClassVar[bool] = False

    hidden: int | tuple[int, ...] = 32
    maxima: bool = False

    def edge_convolution(
        self, inputs: int, outputs: int, edge_width: int, g: torch.Generator, make: MakeLinear = linear
    ) -> nn.Module:
        """One layer; its messages are as wide as what it gives."""
        return Convolution(inputs, outputs, edge_width, g, make, self.maxima)


class Convolution(nn.Module):
    """One layer of `Multigraph`."""

    def __init__(
        self, inputs: int, outputs: int, edge_width: int, g: torch.Generator, make: MakeLinear, maxima: bool = False
    ) -> None:
        super().__init__()
        self.own = make(inputs, outputs, g)
        self.along = Direction(inputs, outputs, edge_width, g, make, maxima)
        self.back = Direction(inputs, outputs, edge_width, g, make, maxima)

    def forward(self, state: States, block: Block) -> Tensor:
        """Return float32 [receivers, outputs]."""
        along, back = fans_of(block)
        own = state.head(block.receivers) if isinstance(state, Sparse) else block.own(state)
        joined: Tensor = self.own(own) + self.along(state, along) + self.back(state, back)
        return joined


class Direction(nn.Module):
    """What a layer makes of the edges of one direction."""

    def __init__(
        self, inputs: int, outputs: int, edge_width: int, g: torch.Generator, make: MakeLinear, maxima: bool
    ) -> None:
        super().__init__()
        self.sent = make(inputs, outputs, g)
        self.edge = linear(edge_width, outputs, g, bias=False) if edge_width else None
        self.mean = linear(outputs, outputs, g, bias=False)
        self.largest = linear(outputs, outputs, g, bias=False) if maxima else None

    def forward(self, state: States, fan: Fan) -> Tensor:
        """Return float32 [receivers, outputs]."""
        weight = None if self.edge is None or fan.values is None else self.edge.used
        if self.largest is None:
            mapped: Tensor = self.mean(edge_messages(self.sent(state), weight, fan))
            return mapped
        means, maxima = means_and_maxima(self.sent(state), weight, fan)
        mapped = self.mean(means) + self.largest(maxima)
        return mapped


_FANS: WeakKeyDictionary[Block, tuple[Fan, Fan]] = WeakKeyDictionary()
"""The edges of blocks as messages take them: whoever keeps a block finds them again in the next step."""


def fans_of(block: Block) -> tuple[Fan, Fan]:
    """Return a block's edges that go along, and those that go back; made once."""
    if block not in _FANS:
        (sender, receiver), weight, told = block.edge_index, block.edge_weight, block.edges
        along = torch.ones_like(sender, dtype=torch.bool) if told is None else told.along
        shape = block.matrix.shape
        fans = []
        for chosen in (along, ~along):
            values = None if told is None else told.values[chosen]
            fans.append(Fan(sender[chosen], receiver[chosen], weight[chosen], values, shape))
        _FANS[block] = fans[0], fans[1]
    return _FANS[block]
