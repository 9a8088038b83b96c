"""Trained models outside fedgraft: what encoders and tasks say of theirs in the words of PyTorch Geometric."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, ClassVar

import torch

from fedgraft.contracts.task import Prepared, Shard, Task
from fedgraft.wire.layouts import Arrays

Tensors = Mapping[str, torch.Tensor]
"""{name in a module's state dict: tensor}."""

USAGE = """from model import CLASSES, load

logits = load()(x, edge_index)
likeliest = [CLASSES[k] for k in logits.argmax(1)]
"""
OUTPUTS = "logits, a column for each of CLASSES; their softmax is what the model takes each class's probability to be."


@dataclass(frozen=True, eq=False)
class PlainModel:
    """A model as source text and a state dict.

    Args:
        source: a Python module with the class `Model` and a function `load`, which need torch, PyG and safetensors.
        arrays: the state dict of that class.
        inputs: what the arguments of its `forward` are, for people to read.
        usage: a few lines of Python that use it; by default of a model that tells classes.
        outputs: what its `forward` returns, likewise.
        client: {name: tensor}, what `forward` reads of a client's own data, where the model cannot tell it.
        names: {what: names}, whose the rows of these are.
    """

    source: str
    arrays: Tensors
    inputs: str
    usage: str = USAGE
    outputs: str = OUTPUTS
    client: Tensors = field(default_factory=dict)
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)


class PlainEncoder(ABC):
    """Ability of a layered encoder: tell its convolutions as layers of PyG or torch, in a list `self.convs`."""

    layer: ClassVar[str]
    """Name of the layer in `torch_geometric.nn`; "" where it is one of torch's, or written out."""
    layer_source: ClassVar[str] = ""
    """Source text of the class of a layer that neither of them has."""
    directed: ClassVar[bool] = False
    """Whether the layer also takes `along`, bool [edges]: whether each goes from its source to its target."""
    call: ClassVar[str] = "conv(x, edge_index)"
    """Source text: the output of the layer `conv`, of the states `x` and the edges `edge_index`."""
    weight_call: ClassVar[str] = ""
    """The same over edges with weights `edge_weight`; "" where the layer takes none."""

    @abstractmethod
    def made(self, inputs: int, outputs: int) -> str:
        """Return the source text that makes a layer, such as "SAGEConv(16, 8)"."""

    @abstractmethod
    def arrays(self, convolution: torch.nn.Module) -> Tensors:
        """Return the state dict of the layer that stands for a convolution."""


class PlainColumnEncoder(PlainEncoder):
    """Ability of a layered encoder that reads columns of edges: tell its convolutions as layers of PyG that do."""

    column_call: ClassVar[str] = "conv(x, edge_index, edge_attr)"
    """Source text as `call`, with the edges' columns `edge_attr`."""
    full_call: ClassVar[str] = ""
    """The same over edges with columns and weights; "" where the layer takes no weights."""

    @abstractmethod
    def made_with(self, inputs: int, outputs: int, edge_width: int) -> str:
        """Return the source text that makes a layer for so many columns."""


class PlainEdgeEncoder(ABC):
    """Ability of an encoder that reads features of edges: tell itself as a module of its own."""

    plain_imports: ClassVar[tuple[str, ...]] = ()
    """Lines of source text that the class needs beside torch."""

    @abstractmethod
    def plain_class(self, node_width: int, edge_width: int) -> str:
        """Return the source text of the class `Encoder`.

        It is made without arguments. Its `forward(x, edge_index, edge_attr)` takes float32 [nodes, node_width], int64
        [2, edges] and float32 [edges, edge_width] to float32 [nodes, width].
        """

    def plain_arrays(self, module: torch.nn.Module) -> Tensors:
        """Return the state dict of that class for a module that the encoder has built, by default its own."""
        return module.state_dict()


class PlainTask(Task[Shard, Prepared]):
    """Ability: tell a trained model as one that needs no fedgraft."""

    encoders: ClassVar[type[Any] | UnionType] = PlainEncoder
    """Abilities of which its encoder needs one for this."""

    @abstractmethod
    def plain(self, model: torch.nn.Module, shard: Any, shared: Arrays) -> PlainModel:
        """Return a trained model in the words of PyG.

        `shard` is the client's whose model it is, and `shared` what that was told before training; None and nothing
        where all have the same model. Raises `InputError` for options that no such model has.
        """
