"""On what? The contract of samplers, and two abilities."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.abilities.tasks import ObservedTask
from fedgraft.contracts.facts import FittedMethod
from fedgraft.contracts.values import Batch, Indices, Observations, Outcome, Stage, State, View
from fedgraft.wire.layouts import Arrays, Tree


class Sampler(FittedMethod, ABC, Generic[State]):
    """Choose the training examples of each local step of a client."""

    @abstractmethod
    def init(self, examples: int) -> State:
        """Make the state before a client's first round, given its number of training examples; None for none."""

    @abstractmethod
    def draw(self, state: State, block: Indices, stage: Stage, g: np.random.Generator) -> Sequence[Batch]:
        """Draw the local steps of one pass over `block`, int64 [examples]: examples that may share a step."""

    def update(self, state: State, draw: Batch, losses: NDArray[np.float32]) -> State:
        """Return the state after a step with these losses, float32 [examples]. Never mutates `state`."""
        return state

    @property
    def observes(self) -> bool:
        """True where `observe` is to see the losses of all training examples before a round's first step."""
        return False

    def observe(self, state: State, losses: NDArray[np.float32]) -> State:
        """Return the state after a look at all losses under the received model, float32 [examples].

        Never mutates `state`.
        """
        return state

    def refreshes(self, epochs: int) -> int:
        """Return the most draws with `refresh`, which ask for other clients' rows, in a round of so many epochs."""
        return 0


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
    """Ability: be an agent at a client, which sees what the model makes of all training examples.

    It looks before every pass and after the last. A selector may ask for scalars of it, and clients may share arrays.
    """

    needs: ClassVar[tuple[type[Any], ...]] = (ObservedTask,)

    @abstractmethod
    def watch(self, state: State, seen: Observations, stage: Stage, g: np.random.Generator) -> State:
        """Return the state after a look at all training examples. Never mutates `state`.

        `stage.epoch` is the pass about to be made; after the last pass it is the number of passes.
        """

    @property
    def reported(self) -> frozenset[str]:
        """Names of the scalars that it can report; sent only if the selector needs them, and charged."""
        return frozenset()

    def report(self, state: State) -> dict[str, float]:
        """Return {name: scalar} with every name of `reported`, after a round of training."""
        return {}

    def first(self, g: np.random.Generator) -> Arrays:
        """Draw the arrays that all clients begin with, float32, which travel with the model; {} for none.

        The server averages them.
        """
        return {}

    def take(self, state: State, shared: Arrays) -> State:
        """Return a client's state with the arrays that the server sent. Never mutates `state`."""
        return state

    def give(self, state: State) -> Arrays:
        """Return a client's arrays after a round, of the same names and shapes."""
        return {}
