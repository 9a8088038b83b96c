"""To solve what? The contract of tasks. What only some tasks need is in `abilities`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, cast

import numpy as np
import torch

from fedgraft.contracts.parts import parts_of
from fedgraft.contracts.ranges import Checked
from fedgraft.contracts.values import Batch, Indices, Losses, Sums
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Arrays

Shard = TypeVar("Shard")
"""One client's own data as the data set hands it over: plain NumPy values that can be sent to a worker process."""
Prepared = TypeVar("Prepared")
"""One client's data, ready to train on."""
Ability = TypeVar("Ability")
Loss: TypeAlias = torch.Tensor | Losses
"""Losses of a step's examples, float [examples], perhaps beside a term that all of them share."""


def example_losses(losses: Loss) -> torch.Tensor:
    """Return the losses of the examples alone, float [examples]."""
    return losses.each if isinstance(losses, Losses) else losses


LossesAndBackward: TypeAlias = tuple[torch.Tensor, Callable[[torch.Tensor], None]]
"""Losses, float [examples], and a function that sets all gradients, given the gradient of the losses."""


@dataclass(frozen=True)
class Chance:
    """What needs no model, and how good it is.

    Args:
        measure: name of the measure that tells it, mostly the score itself.
        value: of that measure.
        what: a constant answer, or a random one, in words: "guessing".
    """

    measure: str
    value: float
    what: str


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Classes of all clients' training examples, as far as clients have told of them.

    Args:
        names: of the classes, in order.
        least: int64 [classes], training examples that there are at least.
        most: int64 [classes], training examples that there are at most.
        alike: whether all clients answer with all of these classes.
    """

    names: tuple[str, ...]
    least: Indices
    most: Indices
    alike: bool = True


class Task(Checked, ABC, Generic[Shard, Prepared]):
    """Turn a client's shard into losses and scores of a model.

    What only some tasks can do is an ability, which a task inherits, or which a part of it has (`contracts.parts`).
    """

    profile: ClassVar[frozenset[str]] = frozenset()
    """Names of the scalars that `describe` can tell, such as "label_0"."""

    reads: ClassVar[str] = ""
    """Name of the task that its data sets are for, of whose shards it makes its own; "" where they are for itself."""
    variants: ClassVar[bool] = False
    """Whether models differ by client: whether parameters have shapes that depend on it, and never travel."""

    def ability(self, kind: type[Ability]) -> Ability | None:
        """Return what answers an ability: this task, or a part of it; None where neither has it."""
        if isinstance(self, kind):
            return self
        names = (name for name, made in parts_of(type(self)).items() if issubclass(made, kind))
        return next((getattr(self, name) for name in names), None)

    def fitted(self, shards: Sequence[Shard]) -> Self:
        """Return this task with what its model must know of the data as options; by default it is as it is."""
        return self

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

    def derived(self, shard: Any, g: np.random.Generator | None, split_seed: int | None = None) -> Shard:
        """Return a client's shard, made of what a data set handed over, as the task `reads` reads it.

        A split is drawn from `g`, None = nothing is held out; or by hashes of ids under a key of `split_seed`.
        """
        return cast(Shard, shard)

    def personal(self, name: str) -> bool:
        """Return whether the parameter `name` never travels."""
        return False

    def variant(self, data: Prepared) -> Hashable:
        """Return what the shapes of a client's personal parameters depend on."""
        return None

    @property
    @abstractmethod
    def metric(self) -> str:
        """Name of the score, such as "accuracy"."""

    @property
    @abstractmethod
    def better(self) -> str:
        """Which scores are better: "lower" or "higher"."""

    @property
    @abstractmethod
    def sums(self) -> tuple[str, ...]:
        """Keys of `evaluate`'s sums, in the order in which they travel; no sum is negative."""

    @property
    def sums_tell(self) -> frozenset[str]:
        """What the sums of a client's held-out examples tell, by words of `contracts.capabilities`."""
        return frozenset({"scores"})

    @property
    def update_tells(self) -> frozenset[str]:
        """What changes of the model's parameters tell of a client, by the same words."""
        return frozenset({"update"})

    @property
    def stochastic(self) -> bool:
        """True where the model may draw from torch's own generators, as dropout does; these are seeded then."""
        return True

    @property
    def seeds_draws(self) -> bool:
        """True where losses depend on `Batch.seed`, as of tasks that draw negative examples or neighbours."""
        return False

    @property
    def layers(self) -> int:
        """Number of layers that draw neighbours, each with a number of its own in `Batch.neighbours`."""
        return 0

    @abstractmethod
    def prepare(self, shard: Shard, shared: Arrays) -> Prepared:
        """Prepare a client's own data for training: features, graphs, folds.

        Test examples appear in nothing that training sees. `shared` is what `PublishingTask.combine` sent the client;
        {} where nothing is published.
        """

    @abstractmethod
    def examples(self, data: Prepared) -> int:
        """Return the number of the client's training examples."""

    @abstractmethod
    def model(self, g: torch.Generator, variant: Hashable = None) -> torch.nn.Module:
        """Draw a model for clients of a `variant`; parameters that travel are laid out alike for all variants.

        Without a variant any will do: the server looks at what is shared and at nothing else.
        """

    @abstractmethod
    def loss(self, model: torch.nn.Module, data: Prepared, draw: Batch, encoded: torch.Tensor | None) -> Loss:
        """Return the losses of a draw's examples, float [examples]; `Losses` adds a term that all of them share.

        The draw lies within one block; `encoded` is what `encode` made of that block.
        """

    def loss_and_backward(self, model: torch.nn.Module, data: Prepared, draw: Batch) -> LossesAndBackward | None:
        """Return losses as `loss`, and what sets the gradients; None, the default, leaves this draw to autograd.

        Called without gradient recording, and only for draws that share no encoding.
        """
        return None

    def blocks(self, data: Prepared) -> Sequence[Indices]:
        """Return the training examples that may share a step, int64 [examples] each; one block of all by default."""
        return [np.arange(self.examples(data), dtype=np.int64)]

    def encode(self, model: torch.nn.Module, data: Prepared, block: Indices) -> torch.Tensor | None:
        """Compute what all draws of a block share and what is costly, such as node embeddings; None for nothing.

        It is computed once per block. Every draw moves what comes after it. The last draw also moves what made it, by
        the mean of all draws' gradients.
        """
        return None

    @abstractmethod
    def evaluate(self, model: torch.nn.Module, data: Prepared) -> dict[str, Sums]:
        """Return {"validation": sums, "test": sums}; sums of several clients add up key by key."""

    @abstractmethod
    def score(self, sums: Sums) -> float:
        """Return the metric, from added sums; nan where there was nothing to score."""

    def describe(self, data: Prepared) -> dict[str, float]:
        """Return {name: scalar} with every name of `profile`; sent only if the selector needs it, and charged."""
        return {}

    def survey(self, shard: Shard) -> dict[str, float] | None:
        """Return "examples" and what `describe` tells, of a shard as it is; None, the default, where it is prepared.

        For data that take long to prepare, as most of the clients never train.
        """
        return None

    @property
    def offers(self) -> frozenset[str]:
        """Names of further parts that the model can have for sharing methods that need them.

        "head": the last linear layer is `head.outer.weight` [classes, width]. "structure": parameters `structure.*`.
        "mask": beside weights `NAME.weight` of linear layers `NAME.mask`, at first 0; they are multiplied by 1 + it.
        "refinement": networks `refinement.*` that refine the model's answers, and a buffer `refinement.active`, 1 once
        they answer. "generator": parameters `generator.*` and a buffer `generator.frozen`, 1 once they no longer learn.
        "ensemble": several models can answer as one. "embeddings": tables `embeddings.users` and `embeddings.items`
        [rows, width], by ids that all clients agree on; the task is stochastic. "relations": attention over friends,
        `relations.*`, and pseudo-labelled items in training; comes with "embeddings".
        """
        return frozenset()

    def with_parts(self, parts: frozenset[str]) -> Self:
        """Return this task with these parts of `offers` in its model."""
        return self

    def together(self, models: Sequence[torch.nn.Module]) -> torch.nn.Module:
        """Return one module that answers as the mean of several; only for tasks that offer "ensemble"."""
        raise TypeError(f"{type(self).__name__} offers no ensemble.")

    @property
    def metrics(self) -> Sequence[str]:
        """Names of the measures by which a model can be chosen; a task with several has an option `judged`."""
        return (self.metric,)

    def judged_by(self, shards: Sequence[Shard], own: bool) -> Self:
        """Return this task judged by what suits the data, unless it is said; `own` if they are a user's own tables.

        Raises `InputError` where there is nothing to learn from them. By default nothing is looked at.
        """
        return self

    def judged_among(self, classes: ClassCounts) -> tuple[Self, list[str]]:
        """Return this task judged by what suits classes that clients have told of, unless it is said, and notes why.

        Raises `InputError` where there is nothing to learn from them. By default nothing is looked at.
        """
        return self, []

    def remarks(self, shard: Shard) -> list[str]:
        """Return what a person at a client's site should know of its labels; nothing by default."""
        return []

    def sealing(self) -> Self:
        """Return this task with encrypted rows (`EncryptedRowsTask`). Raises `InputError` where options exclude it."""
        raise TypeError(f"{type(self).__name__} hands no rows on.")

    def mean_loss(self, sums: Sums) -> float:
        """Return the mean loss, from added sums; nan by default, where it is not told."""
        return float("nan")

    def scores(self, sums: Mapping[str, Sums], chosen: Sums | None = None) -> dict[str, float]:
        """Return the score of each split; what it takes a choice for is chosen on `chosen`, or on validation."""
        return {split: self.score(each) for split, each in sums.items()}

    def measured(self, sums: Mapping[str, Sums], chosen: Sums | None = None) -> dict[str, dict[str, float]]:
        """Return the measures of each split; arguments as of `scores`."""
        return {split: self.measures(each) for split, each in sums.items()}

    def measures(self, sums: Sums) -> dict[str, float]:
        """Return {name: measure} for every measure that the sums tell; the score alone by default."""
        return {self.metric: self.score(sums)}

    def chance(self, sums: Sums) -> Chance | None:
        """Return what a constant answer, or a random order, reaches on the same examples; None where sums do not tell.

        It is of the score or, where the sums do not tell that, of another of `measures`, of which more is better.
        """
        return None

    def selection_metric(self, sums: Sums) -> float:
        """Return what a model is chosen by on validation; better in the same direction as the score, its default."""
        return self.score(sums)


def _shown(option: Any) -> str:
    """Return an option's value as a recipe has it."""
    return repr(list(option) if isinstance(option, tuple) else option)
