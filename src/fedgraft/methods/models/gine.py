"""GINE: sums of messages along edges that carry numbers, and a perceptron of two layers."""

from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import EdgeLayeredEncoder, StackEncoder
from fedgraft.nn.edge_messages import Fan, edge_messages
from fedgraft.nn.layers import MakeLinear, linear
from fedgraft.nn.propagate import Block, Sparse, Stacked, States


@dataclass(frozen=True)
class GINE(StackEncoder, EdgeLayeredEncoder):
    """GINE: sums of messages along edges that carry numbers, and a perceptron of two layers.

    Layer: h <- W2 relu(W1 ((1 + epsilon) h + sum over edges e, from v, of relu(h_v + E e + b))). Edges of the same two
    nodes each send a message; each counts at both of its ends, whatever its direction. Where edges carry nothing there
    are neither E nor b.

    Source: Hu et al., "Strategies for Pre-training Graph Neural Networks", ICLR 2020, as PyTorch Geometric's `GINEConv`
        has it; Xu et al., "GIN", ICLR 2019 (the perceptron, and epsilon fixed at 0).
    Differs: of drawn edges each counts as often as makes up for the others.

    Args:
        hidden: width of every layer and of its perceptron, >= 1 (ours: 64), or a list of widths, one a layer.
        layers: >= 1 (ours: 2); not used where `hidden` is a list.
        epsilon: extra weight of the node itself.
    """

    stochastic: ClassVar[bool] = False
    reads_direction: ClassVar[bool] = False

    epsilon: float = 0.0

    def edge_convolution(
        self, inputs: int, outputs: int, edge_width: int, g: torch.Generator, make: MakeLinear = linear
    ) -> nn.Module:
        """One layer; its messages are as wide as what it takes."""
        return Convolution(inputs, outputs, edge_width, self.epsilon, g, make)


class Convolution(nn.Module):
    """One layer of `GINE`."""

    def __init__(
        self, inputs: int, outputs: int, edge_width: int, epsilon: float, g: torch.Generator, make: MakeLinear
    ) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.inner = make(inputs, outputs, g)
        self.outer = linear(outputs, outputs, g)
        self.edge = linear(edge_width, inputs, g) if edge_width else None

    def forward(self, state: States, block: Block) -> Tensor:
        """Return float32 [receivers, outputs]."""
        rows = state.dense if isinstance(state, Sparse | Stacked) else state
        fan, total = fan_of(block)
        sent = rows if self.edge is None else rows + self.edge.bias
        weight = None if self.edge is None or fan.values is None else self.edge.used
        sums = edge_messages(sent, weight, fan) * total
        gathered = self.inner(torch.add(sums, block.own(rows), alpha=1.0 + self.epsilon))
        mapped: Tensor = self.outer(torch.relu_(gathered))
        return mapped


_FANS: WeakKeyDictionary[Block, tuple[Fan, Tensor]] = WeakKeyDictionary()
"""The edges of blocks as messages take them: whoever keeps a block finds them again in the next step."""


def fan_of(block: Block) -> tuple[Fan, Tensor]:
    """Return a block's edges, and how much those of each receiver count together, float32 [receivers, 1]; made once."""
    if block not in _FANS:
        (sender, receiver), weight, told = block.edge_index, block.edge_weight, block.edges
        values = None if told is None or not told.values.shape[1] else told.values
        total = weight.new_zeros(block.receivers).index_add_(0, receiver, weight)
        _FANS[block] = Fan(sender, receiver, weight, values, block.matrix.shape), total[:, None]
    return _FANS[block]
