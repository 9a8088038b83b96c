"""Trained models outside fedgraft: a module over tensors alone, and what people need to know of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch

from fedgraft.contracts.encoder import Encoder, NetworkEncoder
from fedgraft.wire.layouts import Arrays

Tensors = Mapping[str, torch.Tensor]
"""{name: tensor}."""

USAGE = """from model import CLASSES, load

logits = load()(x, edge_index)
likeliest = [CLASSES[k] for k in logits.argmax(1)]
"""
USAGE_OF_NUMBERS = """from model import load

numbers = load()(x, edge_index)[:, 0]
"""
OUTPUTS = "logits, a column for each of CLASSES; their softmax is what the model takes each class's probability to be."


@dataclass(frozen=True, eq=False)
class PlainModel:
    """A model as a module whose text can be copied.

    Args:
        module: over tensors alone; its classes are fedgraft's, torch's and those of a domain of the user's.
        inputs: what the arguments of its `forward` are, for people to read.
        usage: a few lines of Python that use it; by default of a model that tells classes.
        outputs: what its `forward` returns, likewise.
        classes: their names, in order.
        network: of a network that was given, a line that imports its class, and what makes it.
        client: {name: tensor}, what `forward` reads of a client's own data, where the model cannot tell it.
        names: {what: names}, whose the rows of these are.
        readers: classes that make arguments of these.
    """

    module: torch.nn.Module
    inputs: str
    usage: str = USAGE
    outputs: str = OUTPUTS
    classes: Sequence[str] = ()
    network: tuple[str, str] = ("", "")
    client: Tensors = field(default_factory=dict)
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    readers: Sequence[type] = ()


def network_text(encoder: Encoder, inputs: int) -> tuple[str, str]:
    """Return `PlainModel.network` of an encoder for states of width `inputs`; nothing where it is none."""
    return encoder.source(inputs) if isinstance(encoder, NetworkEncoder) else ("", "")


@runtime_checkable
class PlainTask(Protocol):
    """Ability: tell a trained model as one that needs no fedgraft."""

    def plain(self, model: torch.nn.Module, shard: Any, shared: Arrays) -> PlainModel:
        """Return a trained model as a module over tensors.

        `shard` is the client's whose model it is, and `shared` what that was told before training; None and nothing
        where all have the same model. Raises `InputError` for options that no such model has.
        """
