"""GIN: sums over neighbours and a perceptron of two layers, as strong as the Weisfeiler-Lehman test."""

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import StackEncoder
from fedgraft.nn.layers import MakeLinear, linear
from fedgraft.nn.propagate import Block, Sparse, States


@dataclass(frozen=True)
class GIN(StackEncoder):
    """GIN: sums over neighbours and a perceptron of two layers, as strong as the Weisfeiler-Lehman test.

    Layer: h <- W2 relu(W1 ((1 + epsilon) h + sum over neighbours v of h_v)).

    Source: Xu et al., ICLR 2019, Eq. (4.1); two layers as CEFGL, section 5.1.
    Differs: epsilon is fixed, which its authors found no worse (GIN-0).

    Args:
        hidden: width of every layer and of its perceptron, >= 1 (GCFL, FedStar: 64), or a list of widths, one a layer.
        layers: >= 1 (CEFGL: 2); not used where `hidden` is a list.
        epsilon: extra weight of the node itself.
    """

    stochastic: ClassVar[bool] = False

    epsilon: float = 0.0

    def convolution(self, inputs: int, outputs: int, g: torch.Generator, make: MakeLinear = linear) -> nn.Module:
        """One layer; its perceptron is as wide as what it gives."""
        return Convolution(inputs, outputs, self.epsilon, g, make)


class Convolution(nn.Module):
    """One layer of `GIN`."""

    def __init__(self, inputs: int, outputs: int, epsilon: float, g: torch.Generator, make: MakeLinear) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.inner = make(inputs, outputs, g)
        self.outer = make(outputs, outputs, g)

    def forward(self, state: States, block: Block) -> Tensor:
        """Return float32 [receivers, outputs]."""
        if isinstance(state, Sparse):  # mapped first, while they are sparse; the bias joins once
            sent = self.inner.product(state)
            sums = block.sums(sent, self.inner.product)
            gathered = torch.add(sums, block.own(sent), alpha=1.0 + self.epsilon) + cast(Tensor, self.inner.bias)
        else:
            gathered = self.inner(torch.add(block.sums(state), block.own(state), alpha=1.0 + self.epsilon))
        mapped: Tensor = self.outer(torch.relu_(gathered))
        return mapped
