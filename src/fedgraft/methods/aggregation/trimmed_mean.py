"""TrimmedMean: of each number the mean over clients without the largest and the smallest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Interval

from fedgraft.contracts import Aggregation, Update
from fedgraft.methods.votes import Floats, by_coordinate, expected_liars


@dataclass(frozen=True)
class TrimmedMean(Aggregation):
    """TrimmedMean: of each number the mean over clients, each with one vote, without the largest and the smallest.

    Of n updates floor(share n) are left out at each end, of three or more at least one. Bounded as long as no more lie.

    Source: Yin et al., "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", ICML 2018,
        Definition 2.
    Differs: a late update has a whole vote. Where floor(share n) is 0 one is left out: to leave out none is the mean.
    Cost: no bytes; at the server a sort of all clients' numbers.

    Args:
        share: of the updates that is left out at each end, in [0, 0.5); 0.2 (ours): as many liars as are expected. 0
            = none.
    """

    share: Annotated[float, Interval(ge=0, lt=0.5)] = 0.2

    def apply(self, updates: Sequence[Update]) -> Sequence[Update]:
        """Return updates that all hold the trimmed mean."""
        return by_coordinate(updates, self._trimmed)

    def survives(self, clients: int) -> int:
        """Return how many are left out at each end."""
        return expected_liars(self.share, clients)

    def _trimmed(self, columns: Floats) -> Floats:
        count = len(columns)
        left_out = expected_liars(self.share, count)
        if left_out:
            columns.partition((left_out, count - left_out - 1), axis=0)
        kept: Floats = np.sort(columns[left_out : count - left_out], axis=0).mean(axis=0)
        return kept
