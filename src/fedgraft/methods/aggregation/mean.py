"""Mean: every update counts with its weight."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedgraft.contracts import Aggregation, Update


@dataclass(frozen=True)
class Mean(Aggregation):
    """Mean: every update counts with its weight, as sharing methods are published.

    One client that lies can move the model wherever it wants.

    Source: McMahan et al., AISTATS 2017.
    Differs: nothing.
    Cost: no bytes.
    """

    def apply(self, updates: Sequence[Update]) -> Sequence[Update]:
        """Return the updates as they came."""
        return updates
