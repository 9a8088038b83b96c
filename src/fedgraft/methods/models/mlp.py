"""MLP: layers that look at a node's own state alone."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import LayeredEncoder, check_widths, widths_of
from fedgraft.nn.layers import MakeLinear, linear
from fedgraft.nn.propagate import Block, Sparse, States


@dataclass(frozen=True)
class MLP(LayeredEncoder):
    """MLP: layers that look at a node's own state alone, for models trained like any other that have no use for edges.

    Layer: h <- W h + b.

    Source: the baseline "MLP" of Shchur et al., "Pitfalls of Graph Neural Network Evaluation", arXiv:1811.05868.
    Differs: nothing known; what comes between layers is the task's.

    Args:
        hidden: width of every layer, >= 1 (64 as the encoders it is compared with), or a list of widths, one a layer;
            [] leaves them out: the task `node` then learns a linear model of the features.
        layers: >= 1 (2, as they have); not used where `hidden` is a list.
    """

    stochastic: ClassVar[bool] = False

    hidden: int | tuple[int, ...] = 64
    layers: int = 2

    def __post_init__(self) -> None:
        if self.hidden != ():
            check_widths("MLP", self.hidden, self.layers)

    @property
    def widths(self) -> tuple[int, ...]:
        """Tuple of int, the width of each layer."""
        return widths_of(self.hidden, self.layers)

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
