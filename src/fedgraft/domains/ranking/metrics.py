"""AUC, NDCG and recall of a full ranking: one sort of each user's scores, no loop over users; those of baselines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from fedgraft.contracts.scores import add
from fedgraft.contracts.values import SCORED_SPLITS, Sums
from fedgraft.domains.ranking.ranker_data import lists_of
from fedgraft.domains.ranking.shards import Ids, ItemLists, RankingShard, merge_shards
from fedgraft.errors import require

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class UserScores:
    """How well the items of each user are ranked.

    Args:
        user: int64 [n], the users with at least one relevant item, ascending; the others have no score.
        auc: float64 [n], in [0, 1]: probability that a relevant item is above a candidate that is not relevant.
        ndcg: float64 [n], in [0, 1]: discounted gain of the first k over that of the best order.
        recall: float64 [n], in [0, 1]: share of the relevant items that are among the first k.
    """

    user: Ids
    auc: Floats
    ndcg: Floats
    recall: Floats

    def sums(self) -> Sums:
        """Return {"users", "auc", "ndcg", "recall"}, sums over users: those of disjoint users add up."""
        sums = {name: float(getattr(self, name).sum()) for name in ("auc", "ndcg", "recall")}
        return {"users": float(len(self.user)), **sums}


def score_users(scores: NDArray[np.float32], known: ItemLists, relevant: ItemLists, k: int = 50) -> UserScores:
    """Return the scores of each user with at least one relevant item; every item that is not known is a candidate.

    Equal scores count as ordered at random, in expectation: a tie is half a pair of the AUC, and the places that tied
    items share are divided evenly among them. A user who has no candidate but relevant ones has AUC 1/2; one with a
    score that is not finite has nan. Source: NDCG with gain 1 and discount 1 / log2(place + 1), ties as McSherry and
    Najork (ECIR 2008).

    Scores are float32 [users, items], larger is better, and not changed. No relevant item is known to its user. NDCG
    and recall look at the first k, >= 1.
    """
    require(k >= 1, "k", "at least 1", k)
    users = np.flatnonzero(relevant.counts)
    relevant_count, masked = relevant.counts[users], known.counts[users]
    place = np.arange(relevant_count.max(initial=0)) < relevant_count[:, None]
    items = np.zeros(place.shape, np.int64)
    items[place] = relevant.of(users)
    ranked = scores[users]
    finite = np.isfinite(ranked).all(axis=1)
    ranked[np.repeat(np.arange(len(users)), masked), known.of(users)] = -np.inf
    wanted = np.take_along_axis(ranked, items, axis=1)
    ranked.sort(axis=1)
    tensors = torch.from_numpy(ranked), torch.from_numpy(wanted)
    below, not_above = (torch.searchsorted(*tensors, side=side).numpy()[place] for side in ("left", "right"))
    row = np.repeat(np.arange(len(users)), relevant_count)
    above, ties = scores.shape[1] - not_above, not_above - below

    def total(values: Floats) -> Floats:
        return np.where(finite, np.bincount(row, values, len(users)), np.nan)

    # Over all pairs of relevant items, those below and half of those equal, each to itself too, are half of them.
    others = scores.shape[1] - masked - relevant_count
    pairs = total((below + not_above) / 2) - relevant_count * masked - relevant_count * relevant_count / 2
    auc = np.where(others > 0, pairs / np.maximum(relevant_count * others, 1), np.where(finite, 0.5, np.nan))
    gains = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, k + 2)))])
    first, last = np.minimum(above, k), np.minimum(above + ties, k)
    ndcg = total((gains[last] - gains[first]) / ties) / gains[np.minimum(relevant_count, k)]
    return UserScores(users, auc, ndcg, total((last - first) / ties) / relevant_count)


# --- all clients' users in one place ----------------------------------------------------------------------------------

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
