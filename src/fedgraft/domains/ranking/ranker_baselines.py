"""All clients' users together, as baselines of the task `ranking` see them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fedgraft.contracts.scores import add
from fedgraft.contracts.values import SCORED_SPLITS, Sums
from fedgraft.domains.ranking.metrics import score_users
from fedgraft.domains.ranking.ranker_data import lists_of
from fedgraft.domains.ranking.shards import Ids, ItemLists, RankingShard, merge_shards

PART = 1 << 22
"""Most scores that are held at a time."""
LISTED = 50
"""Length of the list that NDCG and Recall look at."""


@dataclass(frozen=True, eq=False)
class PooledUsers:
    """All users' items, taken in training and held out, {"validation": each user's items, "test": likewise}."""

    users: int
    items: int
    taken: ItemLists
    held_out: dict[str, ItemLists]

    @classmethod
    def of(cls, shards: Sequence[RankingShard]) -> "PooledUsers":
        """Return the users of all clients; equal ids at two clients stay two users."""
        shard = merge_shards(shards)
        held_out = {split: shard.lists(split) for split in SCORED_SPLITS}
        return cls(shard.users, shard.items, shard.lists("train"), held_out)

    @property
    def matrix(self) -> scipy.sparse.csr_matrix:
        """Ones where users have taken items in training, float32 [users, items]."""
        ones = np.ones(len(self.taken.items), np.float32)
        return scipy.sparse.csr_matrix((ones, self.taken.items, self.taken.pointers), (self.users, self.items))

    def score(self, scores: Callable[[Ids], NDArray[np.float32]]) -> dict[str, float]:
        """Return {"validation": mean AUC of users, "test": likewise, "ndcg_at_50", "recall_at_50": on test}.

        nan where nobody has a held-out item. From users, int64 [n], `scores` makes float32 [n, items].
        """
        sums: dict[str, list[Sums]] = {split: [] for split in SCORED_SPLITS}
        size = max(1, PART // self.items)
        for begin in range(0, self.users, size):
            part = np.arange(begin, min(self.users, begin + size))
            every = scores(part)
            for split, lists in self.held_out.items():
                result = score_users(every, lists_of(self.taken, part), lists_of(lists, part), LISTED)
                sums[split].append(result.sums())
        means = {split: _means(add(parts)) for split, parts in sums.items()}
        aucs = {split: values["auc"] for split, values in means.items()}
        return {**aucs, **{f"{name}_at_{LISTED}": means["test"][name] for name in ("ndcg", "recall")}}


def _means(sums: Sums) -> dict[str, float]:
    users = sums["users"]
    return {name: value / users if users else float("nan") for name, value in sums.items() if name != "users"}
