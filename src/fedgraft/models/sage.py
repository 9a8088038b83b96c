"""SAGE: a node's own state and the mean of its neighbours', each with weights of its own."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedgraft.errors import require
from fedgraft.layers import linear
from fedgraft.propagate import Block
from fedgraft.providers import LayeredEncoder


@dataclass(frozen=True)
class SAGE(LayeredEncoder):
    """SAGE: a node's own state and the mean of its neighbours', each with weights of its own.

    Layer: h <- W_own h + W_mean (mean over neighbours v of h_v) + b; the mean of no neighbours is zero.

    Source: Hamilton et al., "GraphSAGE", NIPS 2017, Algorithm 1 with the mean aggregator; two layers as CEFGL, section
        5.1.
    Differs: all neighbours take part, and rows are not normalised to length one, as is common.

    Args:
        hidden: width of the output, >= 1 (GCFL, FedStar: 64).
        layers: >= 1 (CEFGL: 2).
    """

    hidden: int = 64
    layers: int = 2

    def __post_init__(self) -> None:
        for name in ("hidden", "layers"):
            require(getattr(self, name) >= 1, f"SAGE.{name}", ">= 1", getattr(self, name))

    @property
    def width(self) -> int:
        """Width of an embedding."""
        return self.hidden

    @property
    def depth(self) -> int:
        """How many convolutions."""
        return self.layers

    def convolution(self, inputs: int, outputs: int, g: torch.Generator) -> nn.Module:
        """One layer."""
        return Convolution(inputs, outputs, g)


class Convolution(nn.Module):
    """One layer of `SAGE`."""

    def __init__(self, inputs: int, outputs: int, g: torch.Generator) -> None:
        super().__init__()
        self.own = linear(inputs, outputs, g)
        self.mean = linear(inputs, outputs, g, bias=False)

    def forward(self, state: Tensor, block: Block) -> Tensor:
        """Float32 [receivers, outputs]."""
        mean = block.sums(state) / block.degree.clamp(min=1)[:, None]
        mapped: Tensor = self.own(block.own(state)) + self.mean(mean)
        return mapped
