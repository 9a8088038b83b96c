"""Trained models outside fedgraft: what encoders and tasks say of theirs in the words of PyTorch Geometric."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from fedgraft.contracts.task import Prepared, Shard, Task

Tensors = Mapping[str, torch.Tensor]
"""{name in a module's state dict: tensor}."""


@dataclass(frozen=True, eq=False)
class PlainModel:
    """A model as source text and a state dict.

    Args:
        source: a Python module with the class `Model` and a function `load`, which need torch, PyG and safetensors.
        arrays: the state dict of that class.
        inputs: what the arguments of its `forward` are, for people to read.
    """

    source: str
    arrays: Tensors
    inputs: str


class PlainEncoder(ABC):
    """Ability of a layered encoder: tell its convolutions as layers of PyG or torch, in a list `self.convs`."""

    layer: ClassVar[str]
    """Name of the layer in `torch_geometric.nn`; "" where it is one of torch's."""
    call: ClassVar[str] = "conv(x, edge_index)"
    """Source text: the output of the layer `conv`, of the states `x` and the edges `edge_index`."""

    @abstractmethod
    def made(self, inputs: int, outputs: int) -> str:
        """Return the source text that makes a layer, such as "SAGEConv(16, 8)"."""

    @abstractmethod
    def arrays(self, convolution: torch.nn.Module) -> Tensors:
        """Return the state dict of the layer that stands for a convolution."""


class PlainTask(Task[Shard, Prepared]):
    """Ability: tell a trained model as one that needs no fedgraft."""

    @abstractmethod
    def plain(self, model: torch.nn.Module, shard: Any) -> PlainModel:
        """Return a trained model in the words of PyG.

        `shard` is the client's whose model it is; None where all have the same. Raises `InputError` for options that
        no such model has.
        """
