"""An encoder that reads what edges carry: a message is the sender's state and a map of the edge's numbers."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import EdgeLayeredEncoder, StackEncoder
from fedgraft.nn.layers import MakeLinear, linear
from fedgraft.nn.propagate import Block, States


@dataclass(frozen=True)
class Wires(StackEncoder, EdgeLayeredEncoder):
    """Sums over edges of a linear map of senders and of what edges carry."""

    stochastic = False
    reads_direction = False

    def edge_convolution(
        self, inputs: int, outputs: int, edge_width: int, g: torch.Generator, make: MakeLinear = linear
    ) -> nn.Module:
        """One layer."""
        return Wire(make(inputs, outputs, g), linear(edge_width, outputs, g) if edge_width else None)


class Wire(nn.Module):
    """One layer of `Wires`."""

    def __init__(self, near: nn.Module, edge: nn.Module | None) -> None:
        super().__init__()
        self.near, self.edge = near, edge

    def forward(self, states: States, block: Block) -> Tensor:
        """Return float32 [receivers, outputs]."""
        rows = self.near(states if isinstance(states, Tensor) else states.dense)
        sender, receiver = block.edge_index
        told = rows[sender] if self.edge is None else rows[sender] + self.edge(block.edges.values)
        return torch.tanh(block.own(rows)).index_add(0, receiver, block.edge_weight[:, None] * told)
