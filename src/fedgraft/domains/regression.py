"""What domains whose examples may have numbers for labels share: units, losses, scores, groups to split them by.

A shard of such data names no classes; its `label` is float64, the number of each example, nan where it is unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgraft.contracts.scores import root_mean_square
from fedgraft.contracts.task import Prepared, Shard
from fedgraft.contracts.task_abilities import DetailedScores
from fedgraft.contracts.values import SPLITS, Indices, Sums

GROUPS: Final = 5
"""Groups of equal size that numbers are cut into where a split or a partition goes by class; ours."""
SUMS: Final = ("squared_error", "count", "absolute_error", "squared_deviation")
"""Of a split: of errors, and of deviations from the mean of the client's training examples."""

Floats = NDArray[np.float64]


class Labelled(Protocol):
    """The part of a client's data that scores are made of."""

    @property
    def label(self) -> Any:
        """Numbers, float64 [examples], nan = unknown."""

    @property
    def split(self) -> NDArray[np.int8]:
        """Index into `SPLITS` of each example; -1 = in none."""


@dataclass(frozen=True)
class Unit:
    """The unit in which a model tells numbers.

    Args:
        mean: the number that is 0 in it.
        spread: the length of 1 in it, > 0.
    """

    mean: float = 0.0
    spread: float = 1.0

    @classmethod
    def of(cls, numbers: Floats) -> "Unit":
        """The unit in which these have mean 0 and, unless all are equal, variance 1; that of the user for none."""
        if not len(numbers):
            return cls()
        spread = float(numbers.std())
        return cls(float(numbers.mean()), spread if spread > 0 else 1.0)

    def told(self, numbers: Floats) -> NDArray[np.float32]:
        """The user's numbers in this unit, float32."""
        return ((numbers - self.mean) / self.spread).astype(np.float32)

    def meant(self, numbers: Any) -> Floats:
        """Numbers in this unit in the user's, float64."""
        found: Floats = np.asarray(numbers, np.float64) * self.spread + self.mean
        return found


class Regression(DetailedScores[Shard, Prepared]):
    """Score numbers: RMSE, with MAE and R2 beside it, all in the user's unit.

    R2 is one less the squared errors by the squared deviations from the mean of each client's training examples: what
    predicts these means has 0.
    """

    metric: ClassVar[str] = "rmse"
    better: ClassVar[str] = "lower"

    @property
    def sums(self) -> tuple[str, ...]:
        """Names of `SUMS`."""
        return SUMS

    def score(self, sums: Sums) -> float:
        """Return the RMSE."""
        return root_mean_square(sums.get("squared_error", 0.0), sums.get("count", 0.0))

    def mean_loss(self, sums: Sums) -> float:
        """Return the mean squared error; nan without examples."""
        return sums["squared_error"] / sums["count"] if sums.get("count") else float("nan")

    def measures(self, sums: Sums) -> dict[str, float]:
        """Return RMSE, MAE, R2; nan where there is nothing to tell them by."""
        count, spread = sums.get("count", 0.0), sums.get("squared_deviation", 0.0)
        absolute = sums["absolute_error"] / count if count else float("nan")
        share = 1 - sums["squared_error"] / spread if spread else float("nan")
        return {self.metric: self.score(sums), "mae": absolute, "r2": share}


def sums_of(predicted: Floats, numbers: Floats, mean: float) -> Sums:
    """Return `SUMS` of some examples; `mean` is that of the client's training examples."""
    error, deviation = predicted - numbers, numbers - mean
    found = (np.square(error).sum(), len(error), np.abs(error).sum(), np.square(deviation).sum())
    return dict(zip(SUMS, map(float, found), strict=True))


def errors_in_training(outputs: Tensor, numbers: Tensor, huber: float) -> Tensor:
    """Half the squared errors, float32 [examples]; those above `huber` > 0 count linearly (Huber, 1964).

    Args:
        outputs: float32 [examples].
        numbers: float32 [examples], in the same unit.
        huber: 0 = all are squared.
    """
    if huber:
        return nn.functional.huber_loss(outputs, numbers, reduction="none", delta=huber)
    return 0.5 * (outputs - numbers).square()


def is_known(label: Any) -> NDArray[np.bool_]:
    """Return which examples have a label, bool [examples]: a class other than -1, or a number."""
    found: NDArray[np.bool_] = np.isfinite(label) if label.dtype.kind == "f" else label >= 0
    return found


def groups_of(label: Any) -> Indices:
    """Return the group of each example that a split or a partition goes by, int64 [examples]; -1 without a label.

    Classes are their own groups; numbers are cut into `GROUPS` of equal size.
    """
    if label.dtype.kind != "f":
        found: Indices = label
        return found
    known = np.isfinite(label)
    if not known.any():
        return np.full(len(label), -1)
    bounds = np.quantile(label[known], np.arange(1, GROUPS) / GROUPS)
    return np.where(known, np.searchsorted(bounds, label), -1).astype(np.int64)


def rmse(shards: Sequence[Labelled], predicted: Sequence[Floats]) -> dict[str, float]:
    """{"validation": RMSE, "test": RMSE} over all clients' examples; nan where there is none."""
    error = np.concatenate([guess - shard.label for guess, shard in zip(predicted, shards, strict=True)])
    split = np.concatenate([shard.split for shard in shards])
    parts = {name: error[split == SPLITS.index(name)] for name in SPLITS[1:]}
    return {name: root_mean_square(float(np.square(part).sum()), len(part)) for name, part in parts.items()}


def training_mean(shard: Labelled) -> float:
    """Return the mean of a client's training examples; nan without any."""
    numbers = shard.label[shard.split == 0]
    return float(numbers.mean()) if len(numbers) else float("nan")


def numbers_hint(task: str) -> str:
    """How an error ends where numbers are given to a `task` of classes."""
    return f" Numbers are for the task '{task}_regression': fedgraft run {task}_regression ..."


def classes_hint(task: str) -> str:
    """How an error ends where classes are given to the regression beside a `task`."""
    return f" Classes are for the task {task!r}: fedgraft run graft_{task} ..."
