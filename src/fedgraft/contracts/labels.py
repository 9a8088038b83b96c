"""Labelled with what? Kinds of labels as values, and tasks that are scored by one.

A kind says how a model learns a label, how it is scored, what an answer is, and what is best said of all examples
alike. Labels of examples are one array [examples] or, where an example has several, [examples, labels].
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts.loss import ClassShares
from fedgraft.contracts.task import Chance, Prepared, Shard, Task
from fedgraft.contracts.values import Sums
from fedgraft.wire.layouts import Array

Floats = NDArray[np.float64]
Batches: TypeAlias = Iterable[tuple[Tensor, Tensor]]
"""A model's outputs, float32 [n, width], and the labels in training's unit, [n] or [n, labels], batch by batch."""


@dataclass(frozen=True)
class Unit:
    """The unit in which a model tells numbers; of several labels every field is float64 [labels].

    Args:
        mean: the number that is 0 in it.
        spread: the length of 1 in it, > 0.
        centre: mean of the client's own training examples, in the user's unit, which R2 compares with.
    """

    mean: Any = 0.0
    spread: Any = 1.0
    centre: Any = 0.0

    def standardize(self, numbers: Floats) -> NDArray[np.float32]:
        """The user's numbers in this unit, float32."""
        scaled: NDArray[np.float32] = ((numbers - self.mean) / self.spread).astype(np.float32)
        return scaled

    def inverse(self, numbers: Any) -> Floats:
        """Numbers in this unit in the user's, float64."""
        original: Floats = np.asarray(numbers, np.float64) * self.spread + self.mean
        return original

    def of_label(self, number: int) -> "Unit":
        """The unit of one of several labels."""
        fields = (np.asarray(each) for each in (self.mean, self.spread, self.centre))
        return Unit(*(float(each[number] if each.ndim else each) for each in fields))

    def around(self, centre: Any) -> "Unit":
        """The same unit, with the mean of the client's own training examples; nan for none, which takes that of all."""
        return replace(self, centre=np.where(np.isnan(centre), self.mean, centre))


class Labels(ABC):
    """A kind of label."""

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
    def width(self) -> int:
        """How many numbers a model tells of an example."""

    @property
    @abstractmethod
    def numbers(self) -> tuple[int, ...] | None:
        """Shape of the numbers that an example has: () for one, (labels,) for several; None where it has classes."""

    @property
    @abstractmethod
    def sums(self) -> tuple[str, ...]:
        """Names of the sums that `sums_of` returns, in order; no sum is negative."""

    @abstractmethod
    def unit(self, label: Array) -> Unit:
        """Return the unit in which labels are learnt, from those of training examples."""

    @abstractmethod
    def standardize(self, label: Array, unit: Unit) -> Array:
        """Return labels as `losses` reads them, in a unit."""

    @abstractmethod
    def losses(self, outputs: Tensor, label: Tensor, shares: ClassShares | None = None) -> Tensor:
        """Return the loss of each example, float32 [n], from outputs [n, width] and labels as `standardize` returns.

        `shares` of classes at the client, for losses that depend on them; None leaves them as without.
        """

    @abstractmethod
    def together(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return what several models or heads answer as one, float32 [n, width]."""

    @abstractmethod
    def sums_of(self, batches: Batches, unit: Unit) -> Sums:
        """Return `sums` of some examples, all of them known; `unit` as of `standardize`."""

    @abstractmethod
    def score(self, sums: Sums) -> float:
        """Return the metric; nan without examples."""

    @abstractmethod
    def mean_loss(self, sums: Sums) -> float:
        """Return the mean loss; nan without examples."""

    @abstractmethod
    def measures(self, sums: Sums) -> dict[str, float]:
        """Return {name: measure}, the metric among them."""

    def selection_metric(self, sums: Sums) -> float:
        """Return what a model is chosen by; the score by default."""
        return self.score(sums)

    def scores(self, sums: Mapping[str, Sums], chosen: Sums | None = None) -> dict[str, float]:
        """Return the metric of each split; what it takes a choice for is chosen on `chosen`, or on validation."""
        return {split: self.score(each) for split, each in sums.items()}

    def measured(self, sums: Mapping[str, Sums], chosen: Sums | None = None) -> dict[str, dict[str, float]]:
        """Return the measures of each split; arguments as of `scores`."""
        return {split: self.measures(each) for split, each in sums.items()}

    def decision_threshold(self, sums: Mapping[str, Sums]) -> dict[str, Any]:
        """Return how a class is answered, from the sums of splits: {} (default) for the likeliest.

        Else {"class": name of the rarer, "other": of the other one, "share": of validation examples, "threshold": the
        probability from which on it is answered, None for the likeliest, "curve": [(recall, precision, threshold)] of
        it on test}.
        """
        return {}

    def chance(self, sums: Sums) -> Chance | None:
        """Return what a constant answer reaches on the examples of the sums; None (default) where they do not tell."""
        return None

    def decision_thresholds(self, sums: Mapping[str, Sums]) -> dict[str, dict[str, Any]]:
        """Return {label: what `decision_threshold` tells of it} where an example has several; {} by default."""
        return {}

    @abstractmethod
    def answers(self, outputs: Tensor, unit: Unit) -> dict[str, Array]:
        """Return columns of answers, [n] each, in the user's unit and with the names of classes."""

    @abstractmethod
    def constant(self, label: Array) -> Array:
        """Return the label that is best said of all examples, from those of training: a scalar, or [labels]."""

    @abstractmethod
    def agreement(self, predicted: Array, label: Array) -> float:
        """Return the metric of predicted labels, which have the shape of `label`; nan without examples.

        Of classes it may be the probabilities of each, [n, classes].
        """

    def agreements(self, parts: Mapping[str, tuple[Array, Array]]) -> dict[str, float]:
        """Return the metric of each split, of (predicted, label) as of `agreement`."""
        return {split: self.agreement(*each) for split, each in parts.items()}


class LabelledTask(Task[Shard, Prepared]):
    """Have a kind of label, which scores the task's sums."""

    @property
    @abstractmethod
    def labels(self) -> Labels:
        """The kind."""

    @property
    def metric(self) -> str:
        """That of the labels."""
        return self.labels.metric

    @property
    def better(self) -> str:
        """As of the labels."""
        return self.labels.better

    @property
    def sums(self) -> tuple[str, ...]:
        """Those of the labels."""
        return self.labels.sums

    @property
    def sums_tell(self) -> frozenset[str]:
        """Of classes also how many examples each has."""
        return frozenset({"scores"} if self.labels.numbers is not None else {"scores", "class_counts"})

    def score(self, sums: Sums) -> float:
        """Return the labels' metric."""
        return self.labels.score(sums)

    def mean_loss(self, sums: Sums) -> float:
        """Return the mean loss; nan without examples."""
        return self.labels.mean_loss(sums)

    def measures(self, sums: Sums) -> dict[str, float]:
        """Return the labels' measures."""
        return self.labels.measures(sums)

    def chance(self, sums: Sums) -> Chance | None:
        """Return what a constant answer reaches, as the labels tell it."""
        return self.labels.chance(sums)

    def selection_metric(self, sums: Sums) -> float:
        """Return what a model is chosen by."""
        return self.labels.selection_metric(sums)

    def scores(self, sums: Mapping[str, Sums], chosen: Sums | None = None) -> dict[str, float]:
        """Return the labels' metric of each split."""
        return self.labels.scores(sums, chosen)

    def measured(self, sums: Mapping[str, Sums], chosen: Sums | None = None) -> dict[str, dict[str, float]]:
        """Return the labels' measures of each split."""
        return self.labels.measured(sums, chosen)
