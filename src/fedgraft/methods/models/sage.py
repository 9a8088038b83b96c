"""SAGE: a node's own state and the mean of its neighbours', each with weights of its own."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import StackEncoder
from fedgraft.nn.layers import MakeLinear, linear
from fedgraft.nn.manual_gradients import Back
from fedgraft.nn.propagate import Block, Sparse, Stacked, States


@dataclass(frozen=True)
class SAGE(StackEncoder):
    """SAGE: a node's own state and the mean of its neighbours', each with weights of its own.

    Layer: h <- W_own h + W_mean (mean over neighbours v of h_v) + b; the mean of no neighbours is zero.

    Source: Hamilton et al., "GraphSAGE", NIPS 2017, Algorithm 1 with the mean aggregator; two layers as CEFGL, section
        5.1.
    Differs: all neighbours take part, and rows are not normalised to length one, as is common.

    Args:
        hidden: width of every layer, >= 1 (GCFL, FedStar: 64), or a list of widths, one a layer (FedAIS: 256, 128).
        layers: >= 1 (CEFGL: 2); not used where `hidden` is a list.
    """

    stochastic: ClassVar[bool] = False

    def convolution(self, inputs: int, outputs: int, g: torch.Generator, make: MakeLinear = linear) -> nn.Module:
        """Return one layer, from `inputs` to `outputs`."""
        return Convolution(inputs, outputs, g, make)


class Convolution(nn.Module):
    """One layer of `SAGE`."""

    def __init__(self, inputs: int, outputs: int, g: torch.Generator, make: MakeLinear) -> None:
        super().__init__()
        self.own = make(inputs, outputs, g)
        self.mean = make(inputs, outputs, g, bias=False)

    def forward(self, state: States, block: Block) -> Tensor:
        """Return float32 [receivers, outputs]."""
        if isinstance(state, Sparse):
            return self._mapped_first(state, state.head(block.receivers), block)
        return self._joined(state, block.own(state), block)[0]

    def with_back(self, state: States, block: Block) -> tuple[Tensor, Back]:
        """Return float32 [receivers, outputs], and a function that takes its gradient back."""
        if isinstance(state, Sparse):
            own = state.head(block.receivers)
            return self._mapped_first(state, own, block), partial(self._mapped_first_back, block, own, state)
        received = block.own(state)
        joined, means = self._joined(state, received, block)
        return joined, partial(self._back, block, received, means)

    def _joined(self, state: Tensor | Stacked, own: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        """Return float32 [receivers, outputs], and the means that were mapped, which few receivers may have."""
        mapped, few = self.own(own), block.few
        if few is None:
            means = block.means(state)
            return mapped.add_(self.mean(means)), means
        means = few[1] @ state
        return mapped.index_add_(0, few[0], self.mean(means)), means

    def _mapped_first(self, state: Sparse, own: Sparse, block: Block) -> Tensor:
        """Return float32 [receivers, outputs], states mapped while they are sparse."""
        return self.own(own).add_(block.means(state, self.mean))  # type: ignore[no-any-return]

    def _back(self, block: Block, own: Tensor, means: Tensor, gradient: Tensor, further: bool) -> Tensor | None:
        """Add gradients to the parameters; return the states' gradient if it goes `further`."""
        few = block.few
        to_own = self.own.back(own, gradient, further)
        to_means = self.mean.back(means, gradient if few is None else gradient.index_select(0, few[0]), further)
        if to_own is None or to_means is None:
            return None
        total = block.means_back(to_means) if few is None else few[1].back(to_means)
        block.add_own_back(to_own, total)
        return total

    def _mapped_first_back(self, block: Block, own: Sparse, state: Sparse, gradient: Tensor, further: bool) -> None:
        """Add gradients to the parameters; sparse features have none."""
        self.own.back(own, gradient, False)
        self.mean.product_back(state, block.means_back(gradient), False)
