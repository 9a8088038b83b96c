"""A network of a domain's own, and the layer that tells labels of its states."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fedgraft.nn.layers import linear

Inputs = tuple[Tensor, ...]
"""What a network reads of a client."""


class LabelModel(nn.Module):
    """A domain's network, and a linear layer that tells what is asked of a thing, or of two in either order.

    The network's class is made of `sizes`, of which the last is the width, and a generator, from which everything is
    drawn; it takes inputs to states, float32 [things, width]. An example is made of so many `ends`; `outputs` are told
    of it.
    """

    def __init__(
        self, network: type[nn.Module], sizes: Sequence[int], ends: int, outputs: int, g: torch.Generator
    ) -> None:
        super().__init__()
        self.network = network(*sizes, g)
        self.head = linear(sizes[-1] * ends, outputs, g)

    def represent(self, inputs: Inputs, ends: Tensor) -> Tensor:
        """Return what the last layer reads, [examples, n]: the state of one; of two their sum and product."""
        states = self.network(*inputs)
        one, other = states[ends[0]], states[ends[-1]]
        return one if len(ends) == 1 else torch.cat([one + other, one * other], dim=1)

    def forward(self, inputs: Inputs, ends: Tensor) -> Tensor:
        """Return outputs, float32 [examples, outputs]."""
        outputs: Tensor = self.head(self.represent(inputs, ends))
        return outputs
