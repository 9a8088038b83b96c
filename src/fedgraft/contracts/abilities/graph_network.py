"""A task's network on graphs that are made up, such as at the server, which has no data."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, Protocol

import torch
from torch import Tensor

from fedgraft.contracts.task import Prepared, Shard
from fedgraft.contracts.values import Indices


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
