"""Abilities of tasks: abstract classes that a task inherits beside `Task`, or a part of it."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Generic

import numpy as np
import torch

from fedgraft.contracts.randomness import generator
from fedgraft.contracts.task import Prepared, Shard, Task
from fedgraft.contracts.values import Batch, Halo, HaloRows, Indices, Observations
from fedgraft.wire.layouts import Array, Arrays, Layout, Tree


class DerivingTask(ABC, Generic[Shard, Prepared]):
    """Ability: learn from data sets of another task, of whose shards it makes its own."""

    reads: ClassVar[str]
    """Name of the task that the data sets are for."""

    @abstractmethod
    def derived(self, shard: Any, g: np.random.Generator | None) -> Shard:
        """Return a client's shard, made of what a data set handed over.

        Args:
            shard: as the task `reads` reads it.
            g: what a split is drawn from; None = nothing is held out, all of it is known.
        """

    def derived_by_ids(self, shard: Any, g: np.random.Generator, split_seed: int) -> Shard:
        """Return a shard, split by hashes of ids under a key of `split_seed`; by default it is drawn all the same."""
        return self.derived(shard, g)


def derived_shards(task: Task[Any, Any], shards: Sequence[Any], seed: int, key: int | None = None) -> Sequence[Any]:
    """Return all clients' shards as a task reads them, split by ids under a `key`, a seed, where it derives."""
    deriving = task.ability(DerivingTask) is not None
    return [derived_shard(task, *each, seed, key) for each in enumerate(shards)] if deriving else shards


def derived_shard(task: Task[Any, Any], client: int, shard: Any, seed: int, key: int | None = None) -> Any:
    """Return one client's shard as `derived_shards` does among all."""
    if (deriving := task.ability(DerivingTask)) is None:
        return shard
    g = generator(seed, "derive", client=client)
    return deriving.derived(shard, g) if key is None else deriving.derived_by_ids(shard, g, key)


class PublishingTask(ABC, Generic[Shard]):
    """Ability: let clients publish statistics once before training, and get combined ones back."""

    @property
    @abstractmethod
    def statistics_layout(self) -> Layout:
        """Layout of what a client publishes, charged as statistics; empty for nothing."""

    @abstractmethod
    def statistics(self, shard: Shard) -> Arrays:
        """Return what a client publishes: arrays of `statistics_layout`."""

    @abstractmethod
    def check(self, statistics: Arrays) -> None:
        """Server: raise `WireError` for what no client can have published; it costs that client its part in the run."""

    @property
    @abstractmethod
    def combined_layout(self) -> Layout:
        """Layout of what a client gets back."""

    @abstractmethod
    def combine(self, statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
        """Server: return {client: what it gets back}, from {client: what it published}; may be a lazy mapping."""

    def common(self, shared: Arrays) -> Arrays:
        """Return those of the arrays that a client got back that all got alike; none by default.

        They are told to a client that was not there, when the model answers for it.
        """
        return {}


class ObservedTask(ABC, Generic[Shard, Prepared]):
    """Ability: say what a model makes of all training examples of a client; `loss` also tells its hidden layer."""

    @property
    @abstractmethod
    def hidden_width(self) -> int:
        """Width of the model's last hidden layer; 0 as long as that is not known."""

    @property
    @abstractmethod
    def common_classes(self) -> int:
        """Number of classes that all clients have in common; 0 where each has its own, or before the data are known."""

    @abstractmethod
    def observe(self, model: torch.nn.Module, data: Prepared) -> Observations:
        """Return `Observations` in the order of the training examples; called without gradient recording."""


class SyntheticTask(ABC, Generic[Shard, Prepared]):
    """Ability: draw data that are nobody's, alike at all ends, and say what a model makes of them."""

    @property
    @abstractmethod
    def response_width(self) -> int:
        """Width of a response."""

    @abstractmethod
    def synthetic(self, g: np.random.Generator) -> Prepared:
        """Draw such data, ready for a model."""

    @abstractmethod
    def response(self, model: torch.nn.Module, data: Prepared) -> Array:
        """Return what a model makes of them in the mean, float32 [response_width]; called without gradients."""


class HaloTask(ABC, Generic[Shard, Prepared]):
    """Ability: let clients exchange hidden states of nodes (halo rows) while they train, by way of the server.

    A client's halo states go in by `opened` and come out by `closed`. What `prepare` made is never changed.
    """

    @property
    @abstractmethod
    def halo_widths(self) -> tuple[int, ...]:
        """Widths of the hidden states that clients exchange, one per layer; empty where the options exclude it."""

    @property
    @abstractmethod
    def pull(self) -> str:
        """The rows of its halo that a client is sent when it refreshes: "changed" or "asked".

        "changed": rows that changed since it was last sent any. "asked": rows that its next step reads.
        """

    @abstractmethod
    def halos(self, statistics: Mapping[int, Arrays]) -> dict[int, tuple[int, Halo]]:
        """Server: return {client: (number of its nodes, addresses of its halo)}, from what clients published.

        Raises `WireError` for what no client can have published.
        """

    @abstractmethod
    def opened(self, data: Prepared, states: Tree) -> Prepared:
        """Return prepared data with halo states, as `closed` gave them; None for none yet. `data` stays unchanged."""

    @abstractmethod
    def closed(self, data: Prepared) -> Tree:
        """Return the halo states of opened data: what must outlast a request."""

    @abstractmethod
    def receive(self, data: Prepared, rows: Sequence[HaloRows]) -> None:
        """Put rows of the halo into opened data, one `HaloRows` per layer."""

    @abstractmethod
    def changed(self, data: Prepared) -> list[HaloRows]:
        """Return rows of own nodes that others need and that changed since the last call, one `HaloRows` per layer."""

    @abstractmethod
    def read(self, data: Prepared, draw: Batch) -> list[Indices]:
        """Return the slots of the halo whose rows a step reads, int64 ascending, per layer."""

    @abstractmethod
    def look(self, model: torch.nn.Module, data: Prepared, seed: int, losses: bool) -> Array:
        """Compute states of all own nodes under the received model, and losses of all training examples.

        Returns float32 [examples]; it may be empty where no `losses` are wanted. A round begins with it.
        """

    @abstractmethod
    def relay(self, model: torch.nn.Module, data: Prepared, layer: int) -> list[HaloRows]:
        """Return rows of one layer under a model to score, of own nodes that others need, given earlier layers' halo.

        Opened data may keep what later layers and the evaluation under the same model reuse.
        """


class VariantTask(ABC, Generic[Shard, Prepared]):
    """Ability: have parameters whose shape depends on the client, so that they never travel."""

    @abstractmethod
    def personal(self, name: str) -> bool:
        """Return whether the parameter `name` never travels."""

    @abstractmethod
    def variant(self, data: Prepared) -> Hashable:
        """Return what the shapes of a client's personal parameters depend on."""
