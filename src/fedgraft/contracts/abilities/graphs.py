"""Abilities of tasks whose examples are nodes: to show all of a client's nodes and their edges to a method."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, Protocol

import torch
from torch import Tensor

from fedgraft.contracts.abilities.tasks import ObservedTask
from fedgraft.contracts.structure import WHOLE, Augmentation, LocalGraph
from fedgraft.contracts.task import Prepared, Shard
from fedgraft.contracts.values import Indices


class StructuredTask(ObservedTask[Shard, Prepared]):
    """Ability: say what a model makes of all of a client's nodes, and which of them are neighbours."""

    @abstractmethod
    def states(
        self, model: torch.nn.Module, data: Prepared, left_out: Augmentation = WHOLE, seed: int = 0
    ) -> torch.Tensor:
        """Return the last hidden layer over all of a client's nodes, float32 [nodes, width].

        The model looks at the graph less what is left out of it, drawn from the seed.
        """

    @abstractmethod
    def edges(self, data: Prepared) -> tuple[Indices, Indices]:
        """Return `examples` and `edges` of `Structure`."""


class LocalGraphTask(ABC, Generic[Shard, Prepared]):
    """Ability: show a client's part of a graph whose nodes are classified, and what a model makes of all of them."""

    @property
    @abstractmethod
    def classes(self) -> int:
        """How many classes there are."""

    @abstractmethod
    def local_graph(self, model: torch.nn.Module, data: Prepared) -> LocalGraph:
        """Return `LocalGraph`; called without gradient recording."""


class GraphNetworkTask(ABC, Generic[Shard, Prepared]):
    """Ability: run a model on a graph that is given, whose nodes are classified, in place of a client's part of one."""

    @property
    @abstractmethod
    def given_width(self) -> int:
        """Number of features of a node, as the model reads them."""

    @abstractmethod
    def on_graph(self, model: torch.nn.Module, features: Tensor, edges: Indices) -> Tensor:
        """Return logits, float32 [nodes, classes], with gradients of features and parameters where these are recorded.

        Args:
            model: as the task makes it.
            features: float32 [nodes, given_width].
            edges: int64 [2, edges], as of `LocalGraph`.
        """


class GraphNetwork(Protocol):
    """The network of a `GraphNetworkTask` as a function of its parameters, without dropout.

    `width` is the number of features of a node, `learnt` are the names of parameters; other arrays of a model are
    running statistics.
    """

    width: int
    learnt: frozenset[str]

    def logits(self, model: Mapping[str, Tensor], features: Tensor, edges: Indices) -> Tensor:
        """Logits, float32 [nodes, classes], of the network with these shared parameters; others are as drawn first."""
