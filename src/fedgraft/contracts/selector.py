"""Who trains? The contract of client selectors, and one ability."""

from abc import ABC, abstractmethod
from typing import ClassVar, Generic

import numpy as np

from fedgraft.contracts.values import Outcome, Probe, Selection, State, View


class Selector(ABC, Generic[State]):
    """Choose the clients that train in a round."""

    reports: ClassVar[frozenset[str]] = frozenset()
    """Names of the scalars that replies must report: "loss" (mean sample loss), "loss_sq" (mean squared sample loss),
    "score" (of the trained model on the client's own validation split; nan where that is empty), or any name of the
    task's `profile`. The name "update" asks for the decoded uploads instead (`Outcome.updates`)."""

    score_split: str = "validation"
    """Name of the split whose score `update` sees. Anything but "validation" leaks; a method must say so."""

    @abstractmethod
    def init(self, view: View) -> State:
        """Make the state before the first round; `view.round` is 1."""

    @abstractmethod
    def select(self, state: State, view: View, g: np.random.Generator) -> Selection:
        """Choose available clients whose `bytes_per_client` sum to at most `bytes_left`. Never mutates `state`."""

    def update(self, state: State, view: View, outcome: Outcome) -> State:
        """Return the state after a round. Never mutates `state`."""
        return state


class ProbingSelector(Selector[State]):
    """Ability: ask some clients for losses before choosing, of the current model or of steps; the bytes are charged."""

    @abstractmethod
    def probe(self, state: State, view: View, g: np.random.Generator) -> Probe | None:
        """Choose whom to ask; None asks nobody. The answers reach `select` as `view.probed`."""
