"""Abilities of tasks whose examples are nodes: to show all of a client's nodes and their edges to a method."""

from abc import ABC, abstractmethod
from typing import Generic

import torch

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
