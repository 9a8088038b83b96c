"""MLP: layers that look at a node's own state alone."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import EdgeEncoder, StackEncoder
from fedgraft.nn.layers import MakeLinear, linear
from fedgraft.nn.propagate import Block, GraphView, Sparse, States


@dataclass(frozen=True)
class MLP(EdgeEncoder, StackEncoder):
    """MLP: layers that look at a node's own state alone, for models trained like any other that have no use for edges.

    Layer: h <- W h + b. Where it is built as a whole, relu between layers, none after the last.

    Source: the baseline "MLP" of Shchur et al., "Pitfalls of Graph Neural Network Evaluation", arXiv:1811.05868.
    Differs: nothing known; what comes between layers is the task's.

    Args:
        hidden: width of every layer, >= 1 (64 as the encoders it is compared with), or a list of widths, one a layer;
            [] leaves them out: the task `node` then learns a linear model of the features, and `rating` has no
            embeddings beside the features of a pair.
        layers: >= 1 (2, as they have); not used where `hidden` is a list.
    """

    reads_neighbours: ClassVar[bool] = False
    stochastic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.hidden != ():
            super().__post_init__()

    @property
    def width(self) -> int:
        """Int, the width of the last layer; 0 without layers."""
        return self.widths[-1] if self.widths else 0

    def build(self, node_width: int, edge_width: int, g: torch.Generator) -> nn.Module:
        """Return the stack of layers; features of edges play no part."""
        return Layers([node_width, *self.widths], g)

    def convolution(self, inputs: int, outputs: int, g: torch.Generator, make: MakeLinear = linear) -> nn.Module:
        """Return one layer, from `inputs` to `outputs`."""
        return Convolution(inputs, outputs, g, make)


class Convolution(nn.Module):
    """One layer of `MLP`."""

    def __init__(self, inputs: int, outputs: int, g: torch.Generator, make: MakeLinear) -> None:
        super().__init__()
        self.own = make(inputs, outputs, g)

    def forward(self, state: States, block: Block) -> Tensor:
        """Return float32 [receivers, outputs]."""
        own = state.head(block.receivers) if isinstance(state, Sparse) else block.own(state)
        mapped: Tensor = self.own(own)
        return mapped


class Layers(nn.Module):
    """The stack of `MLP`: relu between layers."""

    def __init__(self, widths: list[int], g: torch.Generator) -> None:
        super().__init__()
        self.linear = nn.ModuleList(linear(a, b, g) for a, b in itertools.pairwise(widths))

    def forward(self, view: GraphView) -> Tensor:
        """Return embeddings [nodes, width of the last layer]."""
        state = view.nodes if self.linear else view.nodes[:, :0]
        for number, layer in enumerate(self.linear):
            state = layer(torch.relu(state) if number else state)
        return state
