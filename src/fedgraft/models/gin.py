"""GIN: sums over neighbours and a perceptron of two layers, as strong as the Weisfeiler-Lehman test."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedgraft.errors import require
from fedgraft.layers import linear
from fedgraft.propagate import Block
from fedgraft.providers import LayeredEncoder


@dataclass(frozen=True)
class GIN(LayeredEncoder):
    """GIN: sums over neighbours and a perceptron of two layers, as strong as the Weisfeiler-Lehman test.

    Layer: h <- W2 relu(W1 ((1 + epsilon) h + sum over neighbours v of h_v)).

    Source: Xu et al., ICLR 2019, Eq. (4.1); two layers as CEFGL, section 5.1.
    Differs: epsilon is fixed, which its authors found no worse (GIN-0).

    Args:
        hidden: width of the perceptrons and of the output, >= 1 (GCFL, FedStar: 64).
        layers: >= 1 (CEFGL: 2).
        epsilon: extra weight of the node itself.
    """

    hidden: int = 64
    layers: int = 2
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        for name in ("hidden", "layers"):
            require(getattr(self, name) >= 1, f"GIN.{name}", ">= 1", getattr(self, name))

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
        return Convolution(inputs, self.hidden, outputs, self.epsilon, g)


class Convolution(nn.Module):
    """One layer of `GIN`."""

    def __init__(self, inputs: int, hidden: int, outputs: int, epsilon: float, g: torch.Generator) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.inner = linear(inputs, hidden, g)
        self.outer = linear(hidden, outputs, g)

    def forward(self, state: Tensor, block: Block) -> Tensor:
        """Float32 [receivers, outputs]."""
        gathered = torch.add(block.sums(state), block.own(state), alpha=1.0 + self.epsilon)
        mapped: Tensor = self.outer(torch.relu_(self.inner(gathered)))
        return mapped
