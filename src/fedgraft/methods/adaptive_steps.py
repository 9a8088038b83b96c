"""Adaptive steps of a server: what FedAdam and FedYogi have in common."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from fedgraft.contracts.ranges import PositiveFloat, ProperFraction
from fedgraft.contracts.server_optimizer import ServerOptimizer
from fedgraft.wire.layouts import Array, Arrays


class Moments(TypedDict):
    """The running means of changes, and of their squares, by parameter."""

    first: Arrays
    second: Arrays


@dataclass(frozen=True)
class AdaptiveSteps(ServerOptimizer[Moments]):
    """Move each number by learning_rate m / (sqrt(v) + tau), m being the running mean of its changes.

    Args:
        learning_rate: eta, > 0; 0.01 (ours: Reddi et al. choose it anew for each data set, among 10^-3 to 10). It is
            about how far a number moves in a round.
        first_moment: beta1, decay of the mean change, in [0, 1); 0.9 (Reddi et al.).
        second_moment: beta2, decay of the mean squared change, in [0, 1); 0.99 (Reddi et al.).
        tau: below which changes count less and less, > 0; 0.001 (Reddi et al.). Larger is less adaptive.
    """

    learning_rate: PositiveFloat = 0.01
    first_moment: ProperFraction = 0.9
    second_moment: ProperFraction = 0.99
    tau: PositiveFloat = 1e-3

    def init(self, model: Arrays) -> Moments:
        """No changes yet; their squares are tau^2, the least that Algorithm 2 allows."""
        return {
            "first": {name: np.zeros_like(array) for name, array in model.items()},
            "second": {name: np.full_like(array, self.tau**2) for name, array in model.items()},
        }

    def step(self, state: Moments, change: Arrays) -> tuple[Arrays, Moments]:
        """Algorithm 2, lines 9 to 14; there is no correction of the first rounds' bias."""
        first, second, moves = {}, {}, {}
        for name, delta in change.items():
            mean = self.first_moment * state["first"][name].astype(np.float64) + (1.0 - self.first_moment) * delta
            square = self._second(state["second"][name].astype(np.float64), delta**2)
            moves[name] = self.learning_rate * mean / (np.sqrt(square) + self.tau)
            first[name] = mean.astype(state["first"][name].dtype)
            second[name] = square.astype(state["second"][name].dtype)
        return moves, {"first": first, "second": second}

    @abstractmethod
    def _second(self, before: Array, square: Array) -> Array:
        """Return the running mean of squared changes after another."""
