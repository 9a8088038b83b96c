"""Median: of each number the median over clients."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedgraft.contracts import Aggregation, Update
from fedgraft.methods.votes import by_coordinate


@dataclass(frozen=True)
class Median(Aggregation):
    """Median: of each number of the update the median over clients, each with one vote.

    Bounded as long as fewer than half of the clients lie. Of two clients it is their mean.

    Source: Yin et al., "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", ICML 2018,
        Definition 1.
    Differs: a late update has a whole vote.
    Cost: no bytes; at the server a sort of all clients' numbers.
    """

    def apply(self, updates: Sequence[Update]) -> Sequence[Update]:
        """Return updates that all hold the median."""
        return by_coordinate(updates, lambda columns: np.median(columns, axis=0, overwrite_input=True))

    def survives(self, clients: int) -> int:
        """Return the most that are fewer than half."""
        return (clients - 1) // 2
