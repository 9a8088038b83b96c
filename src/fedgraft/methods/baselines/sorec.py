"""SoRec: ratings and trust links factorised together, over all clients' data at one place."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import MinLen

from fedgraft.contracts.baseline import Baseline
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from fedgraft.domains.ratings.shards import Ids, RatingShard
from fedgraft.domains.ratings.social_factors import Factors, Links, PooledRatings, Scores, best_of, descend


@dataclass(frozen=True)
class SoRec(Baseline[RatingShard]):
    """SoRec: ratings and trust links share the users' factors, at one place; all of it tuned on validation.

    With g the logistic function, ratings r in [0, 1] and links weighted by c*_ik = sqrt(in(k) / (out(i) + in(k))), it
    minimises

        sum (r_ij - g(o + U_i . V_j))^2 + social sum (c*_ik - g(U_i . Z_k))^2 + penalty (|U|^2 + |V|^2 + |Z|^2)

    Source: Ma, Yang, Lyu, King, "SoRec: Social Recommendation Using Probabilistic Matrix Factorization", CIKM 2008, Eq.
        (9) and (10).
    Differs: g has an offset o, the training ratings' mean: the paper's tells who has no training rating the middle of
        the scale (`offset=False`). Adam over all ratings at once, stopped where validation is best, in place of plain
        gradient descent; the mean alone is in the grid too. Ratings are (r - low) / (high - low); predictions are
        clipped to the scale.

    Args:
        rank: number of factors, >= 1 (paper: 5 and 10).
        socials: grid of the weight of links, each >= 0 (paper: 10); around the best on Ciao and Epinions.
        penalties: grid of the penalty, each >= 0 (paper: 0.001); likewise.
        offset: whether g is shifted to the mean; False is the paper's.
        rate: of Adam, > 0.
        steps: most of a fit, >= 1.
        patience: judgements, one every five steps, without a better one that end a fit, >= 1.
        spread: mean and standard deviation of the factors at the start, > 0: a common direction, which becomes biases.
        seed: of the factors at the start, >= 0.

    Needs: all training ratings and all trust links at one place: not federated.
    Cost: none counted, as nothing is sent.
    """

    task: ClassVar[str] = "rating"

    rank: PositiveInt = 10
    socials: Annotated[tuple[NonNegativeFloat, ...], MinLen(1)] = (1.0, 10.0, 30.0, 100.0)
    penalties: Annotated[tuple[NonNegativeFloat, ...], MinLen(1)] = (0.3,)
    offset: bool = True
    rate: PositiveFloat = 0.05
    steps: PositiveInt = 200
    patience: PositiveInt = 4
    spread: PositiveFloat = 0.1
    seed: NonNegativeInt = 0

    def score(self, shards: Sequence[RatingShard]) -> dict[str, float]:
        """RMSE over all clients' validation and test ratings."""
        pooled = PooledRatings.of(shards)
        fits = (self._fit(pooled, *setting) for setting in itertools.product(self.socials, self.penalties))
        return best_of([pooled.scores_of_mean(), *fits])

    def _fit(self, pooled: PooledRatings, social: float, penalty: float) -> Scores:
        """The scores of a fit with one weight of links and one penalty."""
        g = generator(self.seed, "sorec")
        users, items, trusted = (
            g.normal(self.spread, self.spread, (count, self.rank)).astype(np.float32)
            for count in (pooled.users, pooled.items, pooled.users)
        )
        rated, target = pooled.rated, pooled.target
        mean = float(np.clip(target.mean(), 0.01, 0.99))
        offset = np.float32(math.log(mean / (1 - mean)) if self.offset else 0.0)
        links, trust = trust_values(pooled)

        def gradients() -> list[Factors]:
            to_ratings = rated.matrix(_slope(rated.products(users, items) + offset, target))
            to_links = links.matrix(np.float32(social) * _slope(links.products(users, trusted), trust))
            decay = np.float32(2 * penalty)
            return [
                to_ratings @ items + to_links @ trusted + decay * users,
                to_ratings.T @ users + decay * items,
                to_links.T @ users + decay * trusted,
            ]

        def predict(user: Ids, item: Ids) -> Factors:
            return _logistic(np.einsum("nk,nk->n", users[user], items[item]) + offset)

        parameters = [users, items, trusted]
        return descend(parameters, gradients, lambda: pooled.scores(predict), self.rate, self.steps, self.patience)


def trust_values(pooled: PooledRatings) -> tuple[Links, Factors]:
    """Trust links as edges, and c* of each: sqrt(in-degree of the trusted / (own out-degree + that)), float32 [m]."""
    source, target = pooled.shard.trust
    links = Links(source, target, (pooled.users, pooled.users))
    out, into = np.bincount(source, minlength=pooled.users), np.bincount(target, minlength=pooled.users)
    share = into[links.column] / np.maximum(out[links.row] + into[links.column], 1)
    return links, np.sqrt(share).astype(np.float32)


def _logistic(x: Factors) -> Factors:
    return (1 / (1 + np.exp(-x))).astype(np.float32, copy=False)


def _slope(x: Factors, target: Factors) -> Factors:
    """The derivative of (target - g(x))^2."""
    probability = _logistic(x)
    return 2 * (probability - target) * probability * (1 - probability)
