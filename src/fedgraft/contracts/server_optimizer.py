"""How far does the model go? The contract of server optimisers."""

from abc import ABC, abstractmethod
from typing import Generic

from fedgraft.contracts.ranges import Checked
from fedgraft.contracts.values import State
from fedgraft.wire.layouts import Arrays


class ServerOptimizer(Checked, ABC, Generic[State]):
    """Say by how much a global model moves, given how merging a round's updates has changed it.

    That change stands for a gradient (Reddi et al., ICLR 2021, call it a pseudo-gradient), turned round: to move by it
    is to do without a server optimiser. Each model of a grouped sharing method has a state of its own, which only
    rounds with updates to that model move. Only parameters are moved; running statistics are as they were merged.
    """

    @abstractmethod
    def init(self, model: Arrays) -> State:
        """Make the state from a model's parameters before its first move."""

    @abstractmethod
    def step(self, state: State, change: Arrays) -> tuple[Arrays, State]:
        """Return by how much the model moves, and the state after it. Never mutates what it is given.

        Args:
            state: of this model.
            change: of each parameter, float64; finite unless an update was beyond all bounds.

        Returns:
            The move of each parameter, float64, and the next state.
        """
