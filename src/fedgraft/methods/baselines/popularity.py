"""The same ranking for everybody: items by how many users have taken them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgraft.contracts.baseline import Baseline
from fedgraft.domains.ranking.metrics import PooledUsers
from fedgraft.domains.ranking.shards import RankingShard


@dataclass(frozen=True)
class Popularity(Baseline[RankingShard]):
    """Rank items by their training interactions at all clients.

    Source: none needed. Differs: nothing known.
    Needs: one count per item of each client.
    Cost: 4 bytes an item and client, once.
    """

    task: ClassVar[str] = "ranking"
    default: ClassVar[bool] = True

    def score(self, shards: Sequence[RankingShard]) -> dict[str, float]:
        """Mean AUC over all clients' users."""
        pooled = PooledUsers.of(shards)
        counts = np.bincount(pooled.taken.items, minlength=pooled.items).astype(np.float32)
        return pooled.score(lambda users: np.tile(counts, (len(users), 1)))
