"""Matrix factorisation with a pairwise loss, over all clients' users together."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding, softplus

from fedgraft.contracts.baseline import Baseline
from fedgraft.contracts.randomness import generator, torch_generator
from fedgraft.contracts.ranges import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from fedgraft.domains.ranking.metrics import PooledUsers
from fedgraft.domains.ranking.shards import Ids, RankingShard
from fedgraft.nn.layers import normal


@dataclass(frozen=True)
class Bpr(Baseline[RankingShard]):
    """BPR matrix factorisation at one place: the taken item above another one; stopped on validation.

    Source: Rendle, Freudenthaler, Gantner, Schmidt-Thieme, "BPR: Bayesian Personalized Ranking from Implicit Feedback",
        UAI 2009, section 4.3.1; items with biases.
    Differs: Adam on batches instead of single steps of SGD.

    Args:
        width: of users' and items' vectors, >= 1.
        epochs: most passes over training interactions, >= 1.
        patience: epochs without a better validation score that end the fit, >= 1.
        batch_size: interactions in a step, >= 1.
        learning_rate: of Adam, > 0.
        penalty: of the squared vectors in a step, >= 0.
        spread: standard deviation of vectors at the start, > 0.
        seed: of vectors, batches and other items, >= 0.

    Needs: all training interactions at one place: not federated.
    Cost: none counted, as nothing is sent.
    """

    task: ClassVar[str] = "ranking"

    width: PositiveInt = 64
    epochs: PositiveInt = 60
    patience: PositiveInt = 5
    batch_size: PositiveInt = 1024
    learning_rate: PositiveFloat = 0.01
    penalty: NonNegativeFloat = 0.005
    spread: PositiveFloat = 0.1
    seed: NonNegativeInt = 0

    def score(self, shards: Sequence[RankingShard]) -> dict[str, float]:
        """Mean AUC over all clients' users, at the epoch with the best validation score."""
        pooled = PooledUsers.of(shards)
        user = np.repeat(np.arange(pooled.users), pooled.taken.counts)
        taken = _Pairs(user, pooled.taken.items, pooled.items)
        g = generator(self.seed, "bpr")
        draw = torch_generator(self.seed, "bpr")
        users = normal(pooled.users, self.width, std=self.spread, g=draw)
        items = normal(pooled.items, self.width, std=self.spread, g=draw)
        bias = torch.nn.Parameter(torch.zeros(pooled.items, 1))
        optimizer = torch.optim.Adam([users, items, bias], lr=self.learning_rate)
        best, best_epoch = {"validation": -np.inf, "test": np.nan}, 0
        for epoch in range(self.epochs):
            order = g.permutation(len(user))
            for rows in np.split(order, range(self.batch_size, len(order), self.batch_size)):
                other = taken.others(user[rows], g)
                ends = (torch.from_numpy(each) for each in (user[rows], pooled.taken.items[rows], other))
                optimizer.zero_grad()
                self._loss(users, items, bias, *ends).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            with torch.no_grad():
                scores = pooled.score(lambda part: (users[part] @ items.t() + bias[:, 0]).numpy())
            if not scores["validation"] <= best["validation"]:
                best, best_epoch = copy.copy(scores), epoch
            if epoch - best_epoch >= self.patience:
                break
        return best

    def _loss(self, users: Tensor, items: Tensor, bias: Tensor, user: Tensor, item: Tensor, other: Tensor) -> Tensor:
        own, wanted, unwanted = embedding(user, users), embedding(item, items), embedding(other, items)
        apart = (own * (wanted - unwanted)).sum(1) + (embedding(item, bias) - embedding(other, bias))[:, 0]
        squares = own.square().sum(1) + wanted.square().sum(1) + unwanted.square().sum(1)
        return (softplus(-apart) + self.penalty * squares).mean()


class _Pairs:
    """What users have taken, for draws of what they have not."""

    def __init__(self, user: Ids, item: Ids, items: int) -> None:
        self._items, self._pairs = items, np.sort(user * items + item)

    def others(self, user: Ids, g: np.random.Generator) -> Ids:
        """Draw for each user an item that it has not taken, int64 [n]."""
        drawn = g.integers(self._items, size=len(user))
        again = np.flatnonzero(self._has(user, drawn))
        while len(again):
            drawn[again] = g.integers(self._items, size=len(again))
            again = again[self._has(user[again], drawn[again])]
        return drawn

    def _has(self, user: Ids, item: Ids) -> NDArray[np.bool_]:
        pair = user * self._items + item
        place = np.minimum(np.searchsorted(self._pairs, pair), len(self._pairs) - 1)
        present: NDArray[np.bool_] = self._pairs[place] == pair
        return present
