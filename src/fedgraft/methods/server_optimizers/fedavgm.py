"""FedAvgM: the server goes on in the direction of earlier rounds."""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from fedgraft.contracts.ranges import PositiveFloat, ProperFraction
from fedgraft.contracts.server_optimizer import ServerOptimizer
from fedgraft.wire.layouts import Arrays


class Velocity(TypedDict):
    """The velocity of each parameter."""

    velocity: Arrays


@dataclass(frozen=True)
class FedAvgM(ServerOptimizer[Velocity]):
    """FedAvgM: the server goes on in the direction of earlier rounds.

        v <- momentum v + change,     model <- model + learning_rate v

    Source: Hsu et al., "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification",
        2019 (arXiv:1909.06335), section 3.3; with a rate as in Reddi et al., "Adaptive Federated Optimization", ICLR
        2021.
    Differs: with every sharing method that can be moved, not with FedAvg alone.

    Args:
        momentum: beta, in [0, 1); 0.9, in the middle of Hsu et al.'s 0 to 0.997. 0 is plain averaging.
        learning_rate: eta, > 0; 1 (Hsu et al.). With m of momentum, a change moves the model by 1 / (1 - m) times
            itself in the end.

    State:
        velocity: arrays as the model's parameters.
    Needs: a sharing method whose models can be moved.
    Cost: no bytes; at the server the numbers of the model once more.
    """

    momentum: ProperFraction = 0.9
    learning_rate: PositiveFloat = 1.0

    def init(self, model: Arrays) -> Velocity:
        """Stand still."""
        return {"velocity": {name: np.zeros_like(array) for name, array in model.items()}}

    def step(self, state: Velocity, change: Arrays) -> tuple[Arrays, Velocity]:
        """Return the velocity after a change, times the rate."""
        before = state["velocity"]
        after = {name: self.momentum * before[name].astype(np.float64) + delta for name, delta in change.items()}
        moves = {name: self.learning_rate * velocity for name, velocity in after.items()}
        return moves, {"velocity": {name: array.astype(before[name].dtype) for name, array in after.items()}}
