"""Move one global model by the weighted sum of updates, always in the same order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypedDict

import numpy as np

from fedgraft.contracts import MovableSharing, Update
from fedgraft.errors import InputError, require
from fedgraft.wire.layouts import Arrays

AT_ONCE = 1 << 15
"""Numbers that are added up at a time: twice so many doubles fit into a core's own cache."""


def moved(model: Arrays, updates: Sequence[Update], share: float = 1.0) -> Arrays:
    """Each array plus `share` times the weighted sum of its updates, in client order and in double precision."""
    if not updates:
        return dict(model)
    most = min(AT_ONCE, max((value.size for value in model.values()), default=0))
    total, scaled = np.empty((2, most))
    after = {}
    for name, value in model.items():
        before, parts = value.reshape(-1), [update.arrays[name].reshape(-1) for update in updates]
        result = np.empty_like(before)
        for begin in range(0, value.size, AT_ONCE):
            here = slice(begin, begin + AT_ONCE)
            size = len(before[here])
            added, term = total[:size], scaled[:size]
            into = added  # the first is made where the sum will be
            for update, part in zip(updates, parts, strict=True):
                np.copyto(into, part[here])  # and then in place: quicker than numbers that turn double on the way
                into *= update.weight
                if into is term:
                    added += term
                into = term
            added *= share
            result[here] = np.add(before[here], added, out=added)
        after[name] = result.reshape(value.shape)
    return after


class ModelState(TypedDict):
    """State of a method with one global model."""

    model: Arrays


class OneModel(MovableSharing[ModelState]):
    """One model for everybody, moved by the weighted mean of what clients upload: all but a name and a client's round.

    Clients send differences to the model they received, which the server adds to its own; with a lossless codec that is
    the mean of their models, with a lossy one nothing is lost twice.
    """

    merges_means: ClassVar[bool] = True

    def init(self, model: Arrays, clients: int) -> ModelState:
        """Start from the drawn model."""
        return {"model": model}

    def model(self, state: ModelState, group: int = 0) -> Arrays:
        """Return the global model."""
        return state["model"]

    def merge(self, state: ModelState, updates: Sequence[Update]) -> ModelState:
        """Add the weighted sum of updates."""
        return {"model": moved(state["model"], updates)}

    def with_model(self, state: ModelState, group: int, model: Arrays) -> ModelState:
        """Put a model in place of the global one."""
        return {**state, "model": model}


@dataclass(frozen=True)
class SharedBase(OneModel):
    """One base for everybody, and layers by name that every client keeps to itself."""

    private: tuple[str, ...] = ("convolutions.1.", "head.", "out.")

    def __post_init__(self) -> None:
        super().__post_init__()
        name = f"{type(self).__name__}.private"
        require(all(self.private), name, "beginnings of names, none of them empty", self.private)

    def shares(self, name: str) -> bool:
        """Return whether it belongs to the base."""
        return not name.startswith(self.private)

    def init(self, model: Arrays, clients: int) -> ModelState:
        """Start from the drawn base."""
        if not model:
            name = f"{type(self).__name__}.private"
            raise InputError(f"{name} = {self.private!r} leaves nothing to share; sharing.name=local says so.")
        return super().init(model, clients)
