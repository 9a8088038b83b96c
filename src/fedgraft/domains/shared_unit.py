"""The unit that clients agree on before training: from how many training examples each has, their mean and variance."""

from collections.abc import Mapping

import numpy as np

from fedgraft.domains.regression import Floats, Unit
from fedgraft.errors import WireError
from fedgraft.wire.layouts import Arrays, Layout, Spec
from fedgraft.wire.lazy import Made

UNIT = "unit"
"""float64 [2], the mean and the spread that all get back."""
MOMENTS = "moments"
"""float64 [3], what a client publishes: count, mean, variance."""
LARGEST = 1e100
"""Of published numbers: the square of a larger one has no float64."""


def with_moments(layout: Layout) -> Layout:
    """A layout of what clients publish, with moments."""
    return Layout((*layout.specs, Spec(MOMENTS, "float64", (3,))))


def with_unit(layout: Layout) -> Layout:
    """A layout of what clients get back, with the unit."""
    return Layout((*layout.specs, Spec(UNIT, "float64", (2,))))


def moments_of(numbers: Floats) -> Arrays:
    """Return what a client publishes of its training examples; zeros for none."""
    found = (len(numbers), numbers.mean(), numbers.var()) if len(numbers) else (0.0, 0.0, 0.0)
    return {MOMENTS: np.array(found, np.float64)}


def check_moments(statistics: Arrays) -> None:
    """Raise `WireError` for what no client can have published."""
    count, mean, variance = statistics[MOMENTS].tolist()
    if not (0 <= count < 2**53 and abs(mean) <= LARGEST and 0 <= variance <= LARGEST):
        raise WireError(f"{count:g} training examples with mean {mean:g} and variance {variance:g}")


def with_units(combined: Mapping[int, Arrays], statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
    """Return what clients get back, with the unit that all training examples have together."""
    unit = np.array(_together(np.stack([each[MOMENTS] for each in statistics.values()])), np.float64)
    return Made(statistics, lambda client: {**(combined[client] if combined else {}), UNIT: unit})


def unit_in(shared: Arrays) -> Unit:
    """The unit that a client was told."""
    mean, spread = shared[UNIT].tolist()
    return Unit(mean, spread)


def _together(moments: Floats) -> tuple[float, float]:
    """Mean and spread of all, from float64 [clients, 3]; 0 and 1 where nobody has an example."""
    count, mean, variance = moments.T
    if not count.sum():
        return 0.0, 1.0
    centre = float(np.average(mean, weights=count))
    spread = float(np.sqrt(np.average(variance + np.square(mean - centre), weights=count)))
    return centre, spread if spread > 0 else 1.0
