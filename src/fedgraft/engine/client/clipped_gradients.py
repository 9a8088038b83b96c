"""A client's part in a step of gradient descent over all clients: its examples' gradients, each clipped, and added."""

from typing import Any

import numpy as np

from fedgraft.contracts.abilities.private import ClippedGradientTask
from fedgraft.engine.plan import Plan
from fedgraft.nn.flat_model import FlatModel
from fedgraft.wire.layouts import Arrays

PART = 1024
"""Examples at a time: some megabytes of features."""


def descent(plan: Plan, flat: FlatModel, data: Any) -> Arrays:
    """Return the sum over all training examples of their gradients, clipped, with its sign turned: downhill.

    Returns:
        {name of a shared parameter: float64 of its shape}.
    """
    task = plan.task.ability(ClippedGradientTask)
    assert task is not None, "it was checked where it was built"
    examples, longest = plan.task.examples(data), plan.privacy.clip
    total = {name: np.zeros(array.shape) for name, array in plan.first.items()}
    for at in range(0, examples, PART):
        found = task.clipped(flat.module, data, np.arange(at, min(at + PART, examples)), longest)
        for name, array in found.items():
            total[name] -= array
    return total


def shortened(upload: Arrays, longest: float) -> Arrays:
    """Return an update made so short, if it is longer: float64 of the same shapes."""
    exact = {name: array.astype(np.float64) for name, array in upload.items()}
    norm = np.sqrt(sum(float(np.square(array).sum()) for array in exact.values()))
    factor = min(1.0, longest / norm) if norm else 1.0
    return {name: array * factor for name, array in exact.items()}
