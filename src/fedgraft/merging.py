"""What sharing methods have in common: models moved by the weighted sum of updates, always in the same order."""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from fedgraft.contracts import Sharing, Update
from fedgraft.types import Arrays


def moved(model: Arrays, updates: Sequence[Update], share: float = 1.0) -> Arrays:
    """Each array plus `share` times the weighted sum of its updates, in client order and in double precision."""
    after = {}
    for name, value in model.items():
        total = np.zeros(value.shape, dtype=np.float64)
        for update in updates:
            total += update.weight * update.arrays[name].astype(np.float64)
        after[name] = (value + share * total).astype(value.dtype)
    return after


class ModelState(TypedDict):
    """The global model."""

    model: Arrays


class OneModel(Sharing[ModelState]):
    """One model for everybody, moved by the weighted mean of what clients upload: all but a name and a client's round.

    Clients send differences to the model they received, which the server adds to its own; with a lossless codec that is
    the mean of their models, with a lossy one nothing is lost twice.
    """

    def init(self, model: Arrays, clients: int) -> ModelState:
        """Start from the drawn model."""
        return {"model": model}

    def model(self, state: ModelState, group: int = 0) -> Arrays:
        """The global model."""
        return state["model"]

    def merge(self, state: ModelState, updates: Sequence[Update]) -> ModelState:
        """Add the weighted sum of updates."""
        return {"model": moved(state["model"], updates)}
