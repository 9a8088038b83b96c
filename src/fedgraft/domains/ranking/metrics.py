"""AUC, NDCG and recall of a full ranking: one sort of each user's scores, no loop over users."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts.values import Sums
from fedgraft.domains.ranking.shards import Ids, ItemLists
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
