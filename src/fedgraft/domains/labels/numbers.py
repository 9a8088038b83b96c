"""Numbers: an example has one, float64 [n], nan = unknown; learnt in a unit, scored in the user's."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import torch
from torch import Tensor

from fedgraft.contracts.labels import Batches, Floats, Labels, Unit
from fedgraft.contracts.loss import ClassShares, NumberObjective
from fedgraft.contracts.scores import root_mean_square
from fedgraft.contracts.task import Chance
from fedgraft.contracts.values import Sums
from fedgraft.errors import WireError
from fedgraft.wire.layouts import Array, Arrays, Layout, Spec

METRICS: Final = ("rmse", "mae", "r2")
"""Measures that a model that tells numbers can be chosen by."""
SUMS: Final = ("squared_error", "count", "absolute_error", "squared_deviation")
"""Of a split: of errors, and of deviations from the mean of the client's training examples."""


@dataclass(frozen=True)
class Numbers(Labels):
    """One number: RMSE, with MAE and R2 beside it, all in the user's unit.

    R2 is one less the squared errors by the squared deviations from the mean of each client's training examples: what
    predicts these means has 0.

    Args:
        objective: the loss of training; None for half the squared error.
        judged: one of `METRICS`, the score.
    """

    width: ClassVar[int] = 1
    numbers: ClassVar[tuple[int, ...]] = ()
    sums: ClassVar[tuple[str, ...]] = SUMS

    objective: NumberObjective | None = None
    judged: str = "rmse"

    @property
    def metric(self) -> str:
        """As said."""
        return self.judged

    @property
    def better(self) -> str:
        """Lower but for R2."""
        return "higher" if self.judged == "r2" else "lower"

    def unit(self, label: Array) -> Unit:
        """Return the unit in which these have mean 0 and, unless all are equal, variance 1; the user's for none."""
        if not len(label):
            return Unit()
        mean, spread = float(label.mean()), float(label.std())
        return Unit(mean, spread if spread > 0 else 1.0, mean)

    def standardize(self, label: Array, unit: Unit) -> Array:
        """Return the numbers in a unit, float32 [n]."""
        return unit.standardize(label)

    def losses(self, outputs: Tensor, label: Tensor, shares: ClassShares | None = None) -> Tensor:
        """Return losses of training, float32 [n]."""
        if self.objective is not None:
            return self.objective.losses(outputs[:, 0], label)
        return 0.5 * (outputs[:, 0] - label).square()

    def together(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return the mean, float32 [n, 1]."""
        return torch.stack(list(outputs)).mean(0)

    def sums_of(self, batches: Batches, unit: Unit) -> Sums:
        """Return `SUMS` in the user's unit."""
        parts = [(outputs[:, 0].numpy(force=True), label.numpy(force=True)) for outputs, label in batches]
        guesses, label = zip(*parts, strict=True) if parts else ([np.zeros(0)], [np.zeros(0)])
        predicted, numbers = (unit.inverse(np.concatenate(each)) for each in (guesses, label))
        error, deviation = predicted - numbers, numbers - unit.centre
        sums = (np.square(error).sum(), len(error), np.abs(error).sum(), np.square(deviation).sum())
        return dict(zip(SUMS, map(float, sums), strict=True))

    def score(self, sums: Sums) -> float:
        """Return the metric."""
        return self.measures(sums)[self.judged]

    def mean_loss(self, sums: Sums) -> float:
        """Return the mean squared error."""
        return sums["squared_error"] / sums["count"] if sums.get("count") else math.nan

    def measures(self, sums: Sums) -> dict[str, float]:
        """Return RMSE, MAE, R2; nan where there is nothing to tell them by."""
        count, spread = sums.get("count", 0.0), sums.get("squared_deviation", 0.0)
        absolute = sums["absolute_error"] / count if count else math.nan
        share = 1 - sums["squared_error"] / spread if spread else math.nan
        return {"rmse": root_mean_square(sums.get("squared_error", 0.0), count), "mae": absolute, "r2": share}

    def chance(self, sums: Sums) -> Chance | None:
        """Return what saying each client's mean reaches; None of the absolute error, which the sums do not tell."""
        if not sums.get("squared_deviation"):
            return None
        spread = root_mean_square(sums["squared_deviation"], sums["count"])
        value = {"rmse": spread, "r2": 0.0}.get(self.judged)
        return None if value is None else Chance(self.judged, value, "the mean")

    def answers(self, outputs: Tensor, unit: Unit) -> dict[str, Array]:
        """Return the number in the user's unit."""
        return {"prediction": unit.inverse(outputs[:, 0].numpy())}

    def constant(self, label: Array) -> Array:
        """Return the mean, float64 []; nan without any."""
        return np.asarray(label.mean() if len(label) else math.nan, np.float64)

    def agreement(self, predicted: Array, label: Array) -> float:
        """Return the metric; R2 by deviations from the mean of these examples."""
        if not len(label):
            return math.nan
        errors = predicted - label
        deviation = float(np.square(label - label.mean()).sum())
        values = (np.square(errors).sum(), len(label), np.abs(errors).sum(), deviation)
        return self.score(dict(zip(SUMS, map(float, values), strict=True)))


# --- the unit of all clients' numbers ---------------------------------------------------------------------------------

UNIT = "unit"
"""float64 [2] or, of several labels, [labels, 2]: the mean and the spread that all get back."""
MOMENTS = "moments"
"""float64 [3] or [labels, 3], what a client publishes: count, mean, variance."""
LARGEST = 1e100
"""Of published numbers: the square of a larger one has no float64."""


@dataclass(frozen=True)
class PublishedMoments:
    """Publish moments of numbers, `shape` of each example; get back the unit of all, of mean 0 and variance 1."""

    shape: tuple[int, ...]

    @property
    def statistics_layout(self) -> Layout:
        """How many training examples there are, their mean and variance."""
        return Layout((Spec(MOMENTS, "float64", (*self.shape, 3), "sums"),))

    def statistics(self, shard: Any) -> Arrays:
        """Return what a client publishes."""
        return moments_of(training_labels(shard))

    def check(self, statistics: Arrays) -> None:
        """Finite numbers, none of the counts and variances negative."""
        check_moments(statistics)

    @property
    def combined_layout(self) -> Layout:
        """The unit."""
        return Layout((Spec(UNIT, "float64", (*self.shape, 2), "sums"),))

    def combine(self, statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
        """Return the unit that all have in common."""
        unit = unit_together(statistics)
        return {client: {UNIT: unit} for client in statistics}

    def common(self, shared: Arrays) -> Arrays:
        """Return the unit."""
        return {name: array for name, array in shared.items() if name == UNIT}


def training_labels(shard: Any) -> Array:
    """Return the labels of a client's training examples, [examples] or [examples, labels]."""
    label: Array = shard.label[shard.rows("train")]
    return label


def unit_of(labels: Labels, shard: Any, shared: Arrays) -> Unit:
    """Return the common unit; the client's own where nothing is known of it."""
    return unit_in(shared) if UNIT in shared else labels.unit(training_labels(shard))


def moments_of(numbers: Array) -> Arrays:
    """Return what a client publishes of its training examples, [examples] or [examples, labels]; zeros for none."""
    moments = [_moments(column[np.isfinite(column)]) for column in np.atleast_2d(numbers.T)]
    return {MOMENTS: np.array(moments if numbers.ndim > 1 else moments[0], np.float64)}


def check_moments(statistics: Arrays) -> None:
    """Raise `WireError` for what no client can have published."""
    for count, mean, variance in np.atleast_2d(statistics[MOMENTS]).tolist():
        if not (0 <= count < 2**53 and abs(mean) <= LARGEST and 0 <= variance <= LARGEST):
            raise WireError(f"{count:g} training examples with mean {mean:g} and variance {variance:g}")


def unit_together(statistics: Mapping[int, Arrays]) -> Array:
    """Return the unit of all training examples together, float64 [2] or [labels, 2]."""
    moments = np.stack([each[MOMENTS] for each in statistics.values()])
    several = moments.ndim > 2
    units = [_together(moments[:, label]) for label in range(moments.shape[1])] if several else _together(moments)
    return np.array(units, np.float64)


def unit_in(shared: Arrays) -> Unit:
    """The unit that a client was told."""
    mean, spread = shared[UNIT].T
    return Unit(float(mean), float(spread), float(mean)) if not mean.ndim else Unit(mean, spread, mean)


def _moments(numbers: Floats) -> tuple[float, float, float]:
    """Count, mean, variance."""
    return (float(len(numbers)), float(numbers.mean()), float(numbers.var())) if len(numbers) else (0.0, 0.0, 0.0)


def _together(moments: Floats) -> tuple[float, float]:
    """Mean and spread of all, from float64 [clients, 3]; 0 and 1 where nobody has an example."""
    count, mean, variance = moments.T
    if not count.sum():
        return 0.0, 1.0
    centre = float(np.average(mean, weights=count))
    spread = float(np.sqrt(np.average(variance + np.square(mean - centre), weights=count)))
    return centre, spread if spread > 0 else 1.0
