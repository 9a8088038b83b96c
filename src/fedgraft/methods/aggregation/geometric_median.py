"""GeometricMedian: the point with the least sum of distances to all updates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fedgraft.contracts import Aggregation, Update
from fedgraft.contracts.ranges import PositiveInt, PositiveProportion
from fedgraft.methods.votes import Floats, by_coordinate, squared_distances, voting

LEFT: Final = 1e-4
"""What is left of the weight of updates that are very far away once they are survived; ours."""


@dataclass(frozen=True)
class GeometricMedian(Aggregation):
    """GeometricMedian: the point with the least sum of distances to all updates, each with one vote.

    It is a weighted mean whose weights fall with the distance from it, found by the smoothed Weiszfeld algorithm. It is
    bounded as long as fewer than half of the clients lie.

    Source: Pillutla, Kakade, Harchaoui, "Robust Aggregation for Federated Learning", IEEE TSP 2022, Algorithm 2.
    Differs:
        - Votes do not depend on the number of examples, which is what a client says. A late update has 1 / (1 +
          staleness) of a vote.
        - Distances are of whole updates, and all weights are found from the distances of pairs.
    Cost: no bytes; at the server the distances of all pairs of updates.

    Args:
        steps: of the algorithm, >= 1; 50 (ours; the paper takes 3 to 5). It ends earlier where weights stand still. 50
            hold against 45 % of very many clients, 5 against 13 %.
        smoothing: least distance, as a share of the median distance of pairs, > 0; 1e-6 (paper's, absolute there).
    """

    steps: PositiveInt = 50
    smoothing: PositiveProportion = 1e-6

    def apply(self, updates: Sequence[Update]) -> Sequence[Update]:
        """Return updates that all hold the geometric median."""
        votes = np.array([update.weight for update in voting(updates)])
        weights = self._weights(votes, squared_distances(updates))
        return by_coordinate(updates, lambda columns: weights @ columns)

    def survives(self, clients: int) -> int:
        """Return the most whose weight the steps bring down to `LEFT`: of that of l each leaves l / (n - l)."""
        ratio = LEFT ** (1 / self.steps)
        return int(clients * ratio / (1 + ratio))

    def _weights(self, votes: Floats, apart: Floats) -> Floats:
        """The weights that the algorithm ends with, float64 [n], from votes and squared distances of pairs."""
        pairs = np.sqrt(apart[np.triu_indices(len(votes), 1)])
        floor = self.smoothing * float(np.median(pairs)) if len(pairs) else 0.0
        if floor == 0:  # nearly all are equal
            floor = self.smoothing * float(pairs.max(initial=0.0))
        if floor == 0:
            return votes
        weights = votes
        for _ in range(self.steps):
            # Of z = sum_i a_i x_i: |z - x_j|^2 = sum_i a_i |x_i - x_j|^2 - 1/2 sum_ik a_i a_k |x_i - x_k|^2.
            to_each = apart @ weights
            squared = to_each - 0.5 * float(weights @ to_each)
            nearer = votes / np.maximum(np.sqrt(np.maximum(squared, 0.0)), floor)
            before, weights = weights, nearer / nearer.sum()
            if np.abs(weights - before).max() < 1e-12:
                break
        return weights
