"""The unit that clients agree on before training: from how many training examples each has, their mean and variance."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedgraft.contracts.labels import Floats, Labels, Unit
from fedgraft.errors import WireError
from fedgraft.wire.layouts import Array, Arrays, Layout, Spec

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
