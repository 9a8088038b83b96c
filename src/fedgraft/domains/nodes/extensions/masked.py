"""Masks beside the weights of linear layers (Fed-PUB, Baek et al., ICML 2023)."""

from dataclasses import dataclass

import torch

from fedgraft.domains.nodes.extensions.extension import NodeExtension
from fedgraft.domains.nodes.training.model import NodeModel


@dataclass(frozen=True)
class Masked(NodeExtension):
    """Weights of linear layers are multiplied by 1 + a mask, at first 0."""

    def extend(self, model: NodeModel, g: torch.Generator) -> None:
        """Add the masks."""
        model.mask()
