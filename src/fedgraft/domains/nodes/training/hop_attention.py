"""Attention over the hops of smoothed inputs: each node weighs its own averages, by one vector that all nodes share.

Source: Zhang et al., "Graph Attention Multi-Layer Perceptron", KDD 2022 (GAMLP).
Differs: a hop's score is the inner product of its row with one vector; GAMLP's reads the row beside that of another hop
    or of all, behind a sigmoid. With a score of 0 at first, all hops weigh alike.
"""

import torch
from torch import Tensor, nn

from fedgraft.contracts.inputs import Inputs
from fedgraft.nn import flops
from fedgraft.nn.propagate import Sparse, Stacked, States


class HopAttention(nn.Module):
    """From rows of so many hops and the features themselves, side by side, to one row of so many features."""

    def __init__(self, features: int, hops: int) -> None:
        super().__init__()
        self._blocks = hops + 1
        self.score = nn.Parameter(torch.zeros(features))

    def forward(self, inputs: States) -> Tensor:
        """Return the weighted rows, float32 [nodes, features], of [nodes, (hops + 1) x features], which are dense."""
        assert not isinstance(inputs, Sparse), "these were made dense"
        rows = inputs.dense if isinstance(inputs, Stacked) else inputs
        blocks = rows.view(len(rows), self._blocks, -1)
        flops.count(2 * (1 + torch.is_grad_enabled()) * rows.numel())
        weights = torch.softmax(blocks @ self.score, dim=1)
        return torch.bmm(weights[:, None], blocks)[:, 0]


def attention_of(inputs: Inputs, features: int) -> HopAttention | None:
    """Return the attention of a model with these inputs, of so many features; None for one that has none."""
    return HopAttention(features or 1, inputs.hops) if inputs.attends else None
