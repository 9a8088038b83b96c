"""The model of the task `typed_node`: an encoder of metapaths, and a linear layer."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import MetapathEncoder
from fedgraft.nn.layers import linear
from fedgraft.nn.propagate import States


class TypedModel(nn.Module):
    """A network from so many features of target nodes to logits of so many classes; its weights are drawn from `g`.

    The encoder makes embeddings of metapaths whose edges carry so many numbers each; `dropout` is the share of them
    dropped in training.
    """

    def __init__(
        self,
        encoder: MetapathEncoder,
        features: int,
        path_widths: Sequence[int],
        classes: int,
        dropout: float,
        g: torch.Generator,
    ) -> None:
        super().__init__()
        self.encoder = encoder.build(features, path_widths, g)
        self.head = nn.ModuleDict({"outer": linear(encoder.width, classes, g)})
        self.dropout = dropout

    def represent(self, features: States, graphs: Sequence[Any]) -> Tensor:
        """Return embeddings of all nodes, float32 [nodes, width]."""
        hidden: Tensor = self.encoder(features, graphs)
        return hidden

    def classify(self, hidden: Tensor) -> Tensor:
        """Return logits, float32 [nodes, classes], of embeddings."""
        if self.dropout and self.training:
            hidden = nn.functional.dropout(hidden, self.dropout)
        logits: Tensor = self.head["outer"](hidden)
        return logits

    def forward(self, features: States, graphs: Sequence[Any]) -> Tensor:
        """Return logits of all nodes, float32 [nodes, classes]."""
        return self.classify(self.represent(features, graphs))
