"""On what? The contract of samplers, and seven abilities."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, Self

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.ranges import Checked
from fedgraft.contracts.values import Draw, Indices, Observations, Outcome, Stage, State, View
from fedgraft.wire.layouts import Arrays, Tree


class Sampler(Checked, ABC, Generic[State]):
    """Choose the training examples of each local step of a client."""

    @abstractmethod
    def init(self, examples: int) -> State:
        """Make the state before a client's first round, given its number of training examples; None for none."""

    @abstractmethod
    def draw(self, state: State, block: Indices, stage: Stage, g: np.random.Generator) -> Sequence[Draw]:
        """Draw the local steps of one pass over `block`, int64 [examples]: examples that may share a step."""

    def update(self, state: State, draw: Draw, losses: NDArray[np.float32]) -> State:
        """Return the state after a step with these losses, float32 [examples]. Never mutates `state`."""
        return state


class ObservingSampler(Sampler[State]):
    """Ability: see the losses of all training examples under the received model before a round's first step."""

    @property
    def observes(self) -> bool:
        """True where the options ask for a look at losses."""
        return True

    @abstractmethod
    def observe(self, state: State, losses: NDArray[np.float32]) -> State:
        """Return the state after a look at all losses, float32 [examples]. Never mutates `state`."""


class RefreshingSampler(Sampler[State]):
    """Ability: ask for other clients' rows within a round, by draws with `refresh`."""

    @abstractmethod
    def refreshes(self, epochs: int) -> int:
        """Return the most draws with `refresh` in a round of so many epochs."""


class LayeredSampler(Sampler[State]):
    """Ability: depend on the number of layers in which the task draws neighbours."""

    @abstractmethod
    def fitted(self, layers: int) -> Self:
        """Return this sampler for a task of so many `layers`. Raises `InputError` if it cannot be."""


class GuidedSampler(Sampler[State]):
    """Ability: have a half at the server, which sends scalars to each client of a cohort with the order to train."""

    reports: ClassVar[frozenset[str]] = frozenset()
    """{"update"} where `learn` reads the decoded uploads; empty where not."""
    learns_from_scores: ClassVar[bool] = False
    """As of `Selector`."""

    @property
    @abstractmethod
    def guidance(self) -> tuple[str, ...]:
        """Names of the scalars that the server sends, in order; a client finds them in `Stage.guidance`."""

    @abstractmethod
    def guide(
        self, state: Tree, view: View, cohort: Sequence[int], g: np.random.Generator
    ) -> Mapping[int, Mapping[str, float]]:
        """Return {client: {name: scalar}} for a cohort, with every name of `guidance`. Never mutates `state`.

        `state` is the server's half; it is None before the first `learn`.
        """

    def learn(self, state: Tree, view: View, outcome: Outcome, g: np.random.Generator) -> Tree:
        """Return the state of the server's half after a round; `outcome.score` is validation's. Never mutates it."""
        return state


class ActiveSampler(Sampler[State]):
    """Ability: see what the model makes of all training examples, before every pass and after the last.

    The task must be an `ObservedTask`.
    """

    @abstractmethod
    def watch(self, state: State, seen: Observations, stage: Stage, g: np.random.Generator) -> State:
        """Return the state after a look at all training examples. Never mutates `state`.

        `stage.epoch` is the pass about to be made; after the last pass it is the number of passes.
        """


class ReportingSampler(Sampler[State]):
    """Ability: tell a selector scalars about a client, in the reply to an order to train."""

    @property
    @abstractmethod
    def reported(self) -> frozenset[str]:
        """Names of the scalars that it can tell; sent only if the selector needs them, and charged."""

    @abstractmethod
    def report(self, state: State) -> dict[str, float]:
        """Return {name: scalar} with every name of `reported`, after a round of training."""


class SharedSampler(Sampler[State]):
    """Ability: learn with arrays that clients share: they travel with the model, and the server averages them."""

    @abstractmethod
    def first(self, g: np.random.Generator) -> Arrays:
        """Draw the arrays that all clients begin with, float32; {} where the options ask for none."""

    @abstractmethod
    def take(self, state: State, shared: Arrays) -> State:
        """Return a client's state with the arrays that the server sent. Never mutates `state`."""

    @abstractmethod
    def give(self, state: State) -> Arrays:
        """Return a client's arrays after a round, of the same names and shapes."""
