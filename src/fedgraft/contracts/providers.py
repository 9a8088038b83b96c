"""What a task is fed with and held against: Data, Encoder, Yardstick; small contracts beside the six."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic

import pandas as pd
import torch

from fedgraft.contracts import Shard
from fedgraft.errors import require
from fedgraft.nn.layers import MakeLinear, linear


class Data(ABC, Generic[Shard]):
    """Where the shards come from."""

    task: ClassVar[str]
    """The task that understands these shards."""

    @abstractmethod
    def load(self, seed: int) -> list[Shard]:
        """One shard per client, split into train, validation and test; equal seeds give equal shards."""

    def tables(self) -> dict[str, pd.DataFrame]:
        """{option: table} of what was given in memory, for a run to store and to read instead; nothing by default.

        Columns that are not read stay with their owner.
        """
        return {}


class Encoder(ABC):
    """From a graph to an embedding per node; a task builds its model around one.

    What a task needs of an encoder are the abilities below; a task names the one it needs as its `encoder`'s type.
    """

    @property
    @abstractmethod
    def width(self) -> int:
        """Width of an embedding."""


class EdgeEncoder(Encoder):
    """An encoder that reads features of edges."""

    @abstractmethod
    def build(self, node_width: int, edge_width: int, g: torch.Generator) -> torch.nn.Module:
        """A module from a `propagate.GraphView` to float32 [nodes, width], drawn from `g`."""


class LayeredEncoder(Encoder):
    """An encoder that is a stack of convolutions, which a task may also put together itself."""

    by_degree: ClassVar[bool] = False
    """Whether what a node sends depends on its degree: whether its convolutions look at `degree_from`."""
    noisy: ClassVar[bool] = True
    """Whether its convolutions may draw from torch's own generators, as dropout does."""

    @property
    @abstractmethod
    def widths(self) -> tuple[int, ...]:
        """Of the states that each of its convolutions gives, first to last."""

    @property
    def depth(self) -> int:
        """How many convolutions."""
        return len(self.widths)

    @property
    def width(self) -> int:
        """Of what the last one gives."""
        return self.widths[-1]

    @abstractmethod
    def convolution(self, inputs: int, outputs: int, g: torch.Generator, make: MakeLinear = linear) -> torch.nn.Module:
        """One of them, drawn from `g`: from float32 [senders, inputs] and a `propagate.Block` to [receivers, outputs].

        What comes between two of them, such as a relu, is the task's. `make` makes its linear layers: with
        `layers.row_linear` it also takes a `propagate.Sparse` for the senders' states, if receivers are the first of
        the senders.
        """


def widths_of(hidden: int | tuple[int, ...], layers: int) -> tuple[int, ...]:
    """What `LayeredEncoder.widths` is for one width and a number of layers, or for a width of each."""
    return hidden if isinstance(hidden, tuple) else (hidden,) * layers


def check_widths(name: str, hidden: int | tuple[int, ...], layers: int) -> None:
    """Raise `InputError` unless all is >= 1; `name` is the encoder's."""
    require(layers >= 1, f"{name}.layers", ">= 1", layers)
    widths = widths_of(hidden, layers)
    allowed = ">= 1, in a list one for each layer" if isinstance(hidden, tuple) else ">= 1"
    require(len(widths) >= 1 and min(widths) >= 1, f"{name}.hidden", allowed, hidden)


class Yardstick(ABC, Generic[Shard]):
    """What a person would try first, on the same split."""

    task: ClassVar[str]

    @abstractmethod
    def score(self, shards: Sequence[Shard]) -> dict[str, float]:
        """{"validation": score, "test": score} in the task's metric, tuned on validation only."""
