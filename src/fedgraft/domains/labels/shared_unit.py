"""The unit that clients agree on before training: from how many training examples each has, their mean and variance."""

from collections.abc import Mapping

import numpy as np

from fedgraft.contracts.abilities.tasks import PublishingTask
from fedgraft.contracts.labels import Floats, LabelledTask, Unit
from fedgraft.contracts.task import Prepared, Shard
from fedgraft.errors import WireError
from fedgraft.wire.layouts import Array, Arrays, Layout, Spec
from fedgraft.wire.lazy import Made

UNIT = "unit"
"""float64 [2] or, of several labels, [labels, 2]: the mean and the spread that all get back."""
MOMENTS = "moments"
"""float64 [3] or [labels, 3], what a client publishes: count, mean, variance."""
LARGEST = 1e100
"""Of published numbers: the square of a larger one has no float64."""


class SharedUnit(LabelledTask[Shard, Prepared], PublishingTask[Shard, Prepared]):
    """Learn numbers in the unit in which all clients' training examples have mean 0 and variance 1.

    A task that inherits it before others publishes what these do, and the moments. Nothing is added where labels are
    no numbers.
    """

    def training_labels(self, shard: Shard) -> Array:
        """Return the labels of a client's training examples, float64 [examples] or [examples, labels]."""
        label: Array = shard.label[shard.rows("train")]  # type: ignore[attr-defined]
        return label

    @property
    def statistics_layout(self) -> Layout:
        """How many training examples there are, their mean and variance, behind what is published anyway."""
        return self._with(super().statistics_layout, MOMENTS, 3)

    def statistics(self, shard: Shard) -> Arrays:
        """Return what a client publishes."""
        published = super().statistics(shard)
        return published if self.labels.numbers is None else {**published, **moments_of(self.training_labels(shard))}

    def check(self, statistics: Arrays) -> None:
        """Finite numbers, none of the counts and variances negative; the rest as without."""
        super().check(statistics)
        if self.labels.numbers is not None:
            check_moments(statistics)

    @property
    def combined_layout(self) -> Layout:
        """What clients are told anyway, and the unit."""
        return self._with(super().combined_layout, UNIT, 2)

    def combine(self, statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
        """Return what clients are told anyway, and the unit that all have in common."""
        combined = super().combine(statistics)
        return combined if self.labels.numbers is None else with_units(combined, statistics)

    def common(self, shared: Arrays) -> Arrays:
        """Return the unit, beside what all are told alike anyway."""
        return {**super().common(shared), **{name: array for name, array in shared.items() if name == UNIT}}

    def unit_of(self, shard: Shard, shared: Arrays) -> Unit:
        """Return the common unit; the client's own where nothing is known of it."""
        return unit_in(shared) if UNIT in shared else self.labels.unit(self.training_labels(shard))

    def _with(self, layout: Layout, name: str, width: int) -> Layout:
        shape = self.labels.numbers
        return layout if shape is None else Layout((*layout.specs, Spec(name, "float64", (*shape, width), "sums")))


def moments_of(numbers: Array) -> Arrays:
    """Return what a client publishes of its training examples, [examples] or [examples, labels]; zeros for none."""
    moments = [_moments(column[np.isfinite(column)]) for column in np.atleast_2d(numbers.T)]
    return {MOMENTS: np.array(moments if numbers.ndim > 1 else moments[0], np.float64)}


def check_moments(statistics: Arrays) -> None:
    """Raise `WireError` for what no client can have published."""
    for count, mean, variance in np.atleast_2d(statistics[MOMENTS]).tolist():
        if not (0 <= count < 2**53 and abs(mean) <= LARGEST and 0 <= variance <= LARGEST):
            raise WireError(f"{count:g} training examples with mean {mean:g} and variance {variance:g}")


def with_units(combined: Mapping[int, Arrays], statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
    """Return what clients get back, with the unit that all training examples have together."""
    moments = np.stack([each[MOMENTS] for each in statistics.values()])
    several = moments.ndim > 2
    units = [_together(moments[:, label]) for label in range(moments.shape[1])] if several else _together(moments)
    unit = np.array(units, np.float64)
    return Made(statistics, lambda client: {**(combined[client] if combined else {}), UNIT: unit})


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
