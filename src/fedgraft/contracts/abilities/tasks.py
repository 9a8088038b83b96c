"""Abilities of tasks: abstract classes that a task inherits beside `Task`."""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Final, Self, TypeAlias

import numpy as np
import pandas as pd
import torch

from fedgraft.contracts.randomness import generator
from fedgraft.contracts.task import Prepared, Shard, Task
from fedgraft.contracts.values import Draw, Halo, HaloRows, Indices, Observations, Questions
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array, Arrays, Layout, Tree

LossesAndBackward: TypeAlias = tuple[torch.Tensor, Callable[[torch.Tensor], None]]
"""Losses, float [examples], and a function that sets all gradients, given the gradient of the losses."""


class DerivingTask(Task[Shard, Prepared]):
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
    deriving = isinstance(task, DerivingTask)
    return [derived_shard(task, *each, seed, key) for each in enumerate(shards)] if deriving else shards


def derived_shard(task: Task[Any, Any], client: int, shard: Any, seed: int, key: int | None = None) -> Any:
    """Return one client's shard as `derived_shards` does among all."""
    if not isinstance(task, DerivingTask):
        return shard
    g = generator(seed, "derive", client=client)
    return task.derived(shard, g) if key is None else task.derived_by_ids(shard, g, key)


class FittedTask(Task[Shard, Prepared]):
    """Ability: depend on the data, such as on the number of features."""

    @abstractmethod
    def fitted(self, shards: Sequence[Shard]) -> Self:
        """Return this task with what its model must know of the data as options."""

    def check_shard(self, shard: Shard) -> None:
        """Raise `InputError` unless one client's data fit this task, which was fitted to all clients' or told of them.

        By default its options must be those of the task fitted to that client alone.
        """
        own: Any = self
        fitted = self.fitted([shard])
        names = [field.name for field in fields(own) if getattr(fitted, field.name) != getattr(own, field.name)]
        if names:
            wanted = ", ".join(f"task.{name} = {_shown(getattr(fitted, name))}" for name in names)
            had = ", ".join(_shown(getattr(own, name)) for name in names)
            raise InputError(f"with these data the recipe must say {wanted}; it says {had}.")


class ProfiledTask(Task[Shard, Prepared]):
    """Ability: tell a selector scalars about a client's data."""

    profile: ClassVar[frozenset[str]]
    """Names of the scalars that `describe` can tell, such as "label_0"."""

    @abstractmethod
    def describe(self, data: Prepared) -> dict[str, float]:
        """Return {name: scalar} with every name of `profile`; sent only if the selector needs it, and charged."""


class SurveyedTask(Task[Shard, Prepared]):
    """Ability: tell how much a client has from its shard as it is; to prepare it takes long, and most never train."""

    @abstractmethod
    def survey(self, shard: Shard) -> dict[str, float]:
        """Return "examples", and every name of `ProfiledTask.profile`, as they are told of the prepared shard."""


class PublishingTask(Task[Shard, Prepared]):
    """Ability: let clients publish statistics once before training, and get combined ones back.

    What is abstract does nothing here: a class that adds to what others publish calls it.
    """

    @property
    @abstractmethod
    def statistics_layout(self) -> Layout:
        """Layout of what a client publishes, charged as statistics; empty for nothing."""
        return Layout(())

    @abstractmethod
    def statistics(self, shard: Shard) -> Arrays:
        """Return what a client publishes: arrays of `statistics_layout`."""
        return {}

    @abstractmethod
    def check(self, statistics: Arrays) -> None:
        """Server: raise `WireError` for what no client can have published; it costs that client its part in the run."""
        return

    @property
    @abstractmethod
    def combined_layout(self) -> Layout:
        """Layout of what a client gets back."""
        return Layout(())

    @abstractmethod
    def combine(self, statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
        """Server: return {client: what it gets back}, from {client: what it published}; may be a lazy mapping."""
        return {}

    def common(self, shared: Arrays) -> Arrays:
        """Return those of the arrays that a client got back that all got alike; none by default.

        They are told to a client that was not there, when the model answers for it.
        """
        return {}


class BlockedTask(Task[Shard, Prepared]):
    """Ability: cut training examples into blocks, and compute once what all draws of a block share."""

    @abstractmethod
    def blocks(self, data: Prepared) -> Sequence[Indices]:
        """Return the training examples that may share a step, int64 [examples] per block."""

    @abstractmethod
    def encode(self, model: torch.nn.Module, data: Prepared, block: Indices) -> torch.Tensor | None:
        """Compute what all draws of a block share and what is costly, such as node embeddings; None for nothing.

        It is computed once per block. Every draw moves what comes after it. The last draw also moves what made it, by
        the mean of all draws' gradients.
        """


class ManualGradientTask(Task[Shard, Prepared]):
    """Ability: compute gradients without autograd."""

    @abstractmethod
    def loss_and_backward(self, model: torch.nn.Module, data: Prepared, draw: Draw) -> LossesAndBackward | None:
        """Return losses as `loss`, and what sets the gradients; None leaves this draw to autograd.

        Called without gradient recording, and only for draws that share no encoding.
        """


class ObservedTask(Task[Shard, Prepared]):
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


class SyntheticTask(Task[Shard, Prepared]):
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


class SeededTask(Task[Shard, Prepared]):
    """Ability: draw something of its own in every step, such as negative examples, from `Draw.seed` alone."""


class NeighbourSamplingTask(Task[Shard, Prepared]):
    """Ability: draw neighbours of nodes in every step."""

    @property
    @abstractmethod
    def layers(self) -> int:
        """Number of layers that draw neighbours, each with a number of its own in `Draw.neighbours`."""

    @property
    @abstractmethod
    def draws_neighbours(self) -> bool:
        """True where losses depend on `Draw.seed` even if a draw says nothing of `neighbours`."""


class HaloTask(Task[Shard, Prepared]):
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
    def read(self, data: Prepared, draw: Draw) -> list[Indices]:
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


class PartsTask(Task[Shard, Prepared]):
    """Ability: have further parts in the model for sharing methods that need them."""

    @property
    @abstractmethod
    def offers(self) -> frozenset[str]:
        """Names of parts that the model can have.

        "head": the last linear layer is `head.outer.weight` [classes, width]. "structure": parameters `structure.*`.
        "mask": beside weights `NAME.weight` of linear layers `NAME.mask`, at first 0; they are multiplied by 1 + it.
        "refinement": networks `refinement.*` that refine the model's answers, and a buffer `refinement.active`, 1 once
        they answer. "generator": parameters `generator.*` and a buffer `generator.frozen`, 1 once they no longer learn.
        "ensemble": several models can answer as one. "embeddings": tables `embeddings.users` and `embeddings.items`
        [rows, width], by ids that all clients agree on; the task is stochastic. "relations": attention over friends,
        `relations.*`, and pseudo-labelled items in training; comes with "embeddings".
        """

    @abstractmethod
    def with_parts(self, parts: frozenset[str]) -> Self:
        """Return this task with these parts of `offers` in its model."""

    def together(self, models: Sequence[torch.nn.Module]) -> torch.nn.Module:
        """Return one module that answers as the mean of several; only for tasks that offer "ensemble"."""
        raise TypeError(f"{type(self).__name__} offers no ensemble.")


class VariantTask(Task[Shard, Prepared]):
    """Ability: have parameters whose shape depends on the client, so that they never travel."""

    @abstractmethod
    def personal(self, name: str) -> bool:
        """Return whether the parameter `name` never travels."""

    @abstractmethod
    def variant(self, data: Prepared) -> Hashable:
        """Return what the shapes of a client's personal parameters depend on."""


SHARE: Final = "probability_"
"""What the name of a column of answers begins with that tells the probability of a class, whose name follows."""


class PredictingTask(Task[Shard, Prepared]):
    """Ability: answer questions with a trained model."""

    asks: ClassVar[tuple[str, ...]]
    """Names of the tables that questions come in, such as "pairs"; each row of the first gets an answer."""
    count_column: ClassVar[str] = ""
    """Name of the first table's column that says how many answers its row gets; "" where it gets one."""

    @abstractmethod
    def questions(self, shards: Sequence[Shard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
        """Return {client: what it is to answer}: every row of the first table with one client.

        Raises `InputError` for tables and columns that are missing.
        """

    @abstractmethod
    def predict(
        self, model: torch.nn.Module, shard: Shard, remembered: Mapping[str, Any], asked: Any
    ) -> dict[str, Array]:
        """Return columns of answers to a client's questions, from its own data (the training part where it is split).

        Columns that begin with `SHARE` are shown where they are asked for.

        `remembered` is what it kept of the run: "shared", what `combine` sent it, and "states", its halo states; {} for
        a client that was not there.
        """

    def vocabulary(self, shard: Shard) -> Sequence[str]:
        """Return the names by which what a model reads and tells of a client is numbered, in order; none by default.

        A model fits other data of the client only where they are the same. What `FittedTask` has as options is told
        there.
        """
        return ()

    def tables_of(self, questions: Any) -> dict[str, pd.DataFrame]:
        """Return the tables that questions stand for which are no table, such as graph objects.

        Raises `InputError` for what it does not know, by default for anything.
        """
        raise InputError(
            "questions must be the path of a .csv or .parquet file or a DataFrame, a row each; "
            f"got {type(questions).__name__}."
        )

    def represent(self, model: torch.nn.Module, data: Prepared) -> tuple[Array, Array] | None:
        """Return the last hidden layer over the test examples, float32 [examples, width], and their classes.

        None where there is no hidden layer.
        """
        return None


class EmbeddingTask(PredictingTask[Shard, Prepared]):
    """Ability: tell the last hidden layer of what is asked."""

    @abstractmethod
    def embed(
        self, model: torch.nn.Module, shard: Shard, remembered: Mapping[str, Any], asked: Any | None
    ) -> tuple[dict[str, Array], Array]:
        """Return columns that name what is asked, such as "node", and its hidden layer, float32 [questions, width].

        Arguments as of `predict`; `asked` may be None for the client's test examples.
        """


def _shown(option: Any) -> str:
    """Return an option's value as a recipe has it."""
    return repr(list(option) if isinstance(option, tuple) else option)
