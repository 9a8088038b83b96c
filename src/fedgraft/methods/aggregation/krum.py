"""Krum: only the updates that lie closest to the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Interval

from fedgraft.contracts import Aggregation, Update
from fedgraft.methods.votes import expected_liars, squared_distances, voting


@dataclass(frozen=True)
class Krum(Aggregation):
    """Krum: only the updates that lie closest to the others count, each with one vote.

    Of n updates of which f = floor(share n) are expected to lie, of three or more at least one, the score of one is the
    sum of its squared distances to the n - f - 2 nearest others. Those with the least scores are kept: n - f of them
    (Multi-Krum), or one.

    Source: Blanchard et al., "Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent", NeurIPS 2017,
        section 4, and section 5 on Multi-Krum.
    Differs:
        - The paper asks for n > 2 f + 2. With fewer updates at least one neighbour counts. One or two updates are all
          kept, since nothing tells them apart.
        - Where floor(share n) is 0 one is expected to lie: to expect none is to keep all.
        - Equal scores go to the lower client.
        - A late update that is kept weighs 1 / (1 + staleness) of a fresh one.
    Cost: no bytes; at the server the distances of all pairs of updates.

    Args:
        share: of the updates that are expected to lie, in [0, 0.5); 0.2 (ours). 0 = none.
        multi: whether n - f updates are kept, not one; true, for one update alone is a noisy step.
    """

    share: Annotated[float, Interval(ge=0, lt=0.5)] = 0.2
    multi: bool = True

    def apply(self, updates: Sequence[Update]) -> Sequence[Update]:
        """Return the updates of least score."""
        count = len(updates)
        if count <= 2:
            return voting(updates)
        liars = expected_liars(self.share, count)
        neighbours = _neighbours(count, liars)
        nearest = np.sort(squared_distances(updates), axis=1)[:, 1 : neighbours + 1]  # the first is the client itself
        order = np.argsort(nearest.sum(axis=1), kind="stable")
        kept = sorted(order[: count - liars if self.multi else 1].tolist())
        return voting([updates[index] for index in kept])

    def survives(self, clients: int) -> int:
        """Return how many are expected to lie, or so many as have an honest neighbour among those that count."""
        liars = expected_liars(self.share, clients)
        return min(liars, _neighbours(clients, liars))


def _neighbours(count: int, liars: int) -> int:
    """Return how many nearest others make a score."""
    return max(count - liars - 2, 1)
