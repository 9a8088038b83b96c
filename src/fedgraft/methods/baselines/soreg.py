"""SoReg: matrix factorisation whose users are drawn towards those whom they trust, at one place."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import scipy.sparse
from annotated_types import MinLen

from fedgraft.contracts.baseline import Baseline
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import NonNegativeFloat, NonNegativeInt, OneOf, PositiveFloat, PositiveInt
from fedgraft.domains.ratings.shards import Ids, RatingShard
from fedgraft.domains.ratings.social_factors import Factors, PooledRatings, Scores, best_of, descend

FORMS = ("individual", "average")
CHUNK = 16384
"""Links whose ends' ratings are compared at a time, so that they stay in tens of megabytes."""


@dataclass(frozen=True)
class SoReg(Baseline[RatingShard]):
    """SoReg: factorised ratings, users regularised towards those whom they trust, at one place; tuned on validation.

    With s(i, f) the similarity of a user and one whom it trusts, in [0, 1], it minimises half of

        sum (r_ij - m - U_i . V_j)^2 + penalty (|U|^2 + |V|^2) + social S

    where S is sum_i sum_f s(i, f) |U_i - U_f|^2 ("individual") or sum_i |U_i - sum_f s(i, f) U_f / sum_f s(i, f)|^2
    ("average").

    Source: Ma, Zhou, Liu, Lyu, King, "Recommender Systems with Social Regularization", WSDM 2011, Eq. (8) and (11);
        similarities by Pearson's correlation over common items, (x + 1) / 2, Eq. (5).
    Differs: m is the mean of training ratings; the paper has none, and tells who has no training rating the lowest
        (`offset=False`). Where the correlation has no value (fewer than two common items, or equal ratings alone) it is
        taken for 0. Adam over all ratings at once, stopped where validation is best; the mean alone is in the
        grid too. Ratings are (r - low) / (high - low); predictions are clipped to the scale.

    Args:
        form: "individual" (the better one in the paper) or "average".
        rank: number of factors, >= 1 (paper: 10).
        socials: grid of the weight of S, each >= 0 (paper: 0.001 to 0.1); around the best on Ciao and Epinions.
        penalties: grid of the penalty, each >= 0 (paper: 0.001); likewise.
        offset: whether m is the mean; False is the paper's, m = 0.
        rate: of Adam, > 0.
        steps: most of a fit, >= 1.
        patience: judgements, one every five steps, without a better one that end a fit, >= 1.
        spread: mean and standard deviation of the factors at the start, > 0: a common direction, which becomes biases.
        seed: of the factors at the start, >= 0.

    Needs: all training ratings and all trust links at one place: not federated.
    Cost: none counted, as nothing is sent.
    """

    task: ClassVar[str] = "rating"

    form: Annotated[str, OneOf(FORMS)] = "individual"
    rank: PositiveInt = 10
    socials: Annotated[tuple[NonNegativeFloat, ...], MinLen(1)] = (0.3, 1.0)
    penalties: Annotated[tuple[NonNegativeFloat, ...], MinLen(1)] = (0.3, 1.0)
    offset: bool = True
    rate: PositiveFloat = 0.05
    steps: PositiveInt = 200
    patience: PositiveInt = 4
    spread: PositiveFloat = 0.1
    seed: NonNegativeInt = 0

    def score(self, shards: Sequence[RatingShard]) -> dict[str, float]:
        """RMSE over all clients' validation and test ratings."""
        pooled = PooledRatings.of(shards)
        pull = pull_towards_trusted(similarities(pooled), self.form)
        fits = (self._fit(pooled, pull, *setting) for setting in itertools.product(self.socials, self.penalties))
        return best_of([pooled.scores_of_mean(), *fits])

    def _fit(self, pooled: PooledRatings, pull: scipy.sparse.csr_matrix, social: float, penalty: float) -> Scores:
        """The scores of a fit with one weight of S and one penalty."""
        g = generator(self.seed, "soreg")
        users, items = (
            g.normal(self.spread, self.spread, (count, self.rank)).astype(np.float32)
            for count in (pooled.users, pooled.items)
        )
        rated, target = pooled.rated, pooled.target
        mean = np.float32(target.mean() if self.offset else 0.0)

        def gradients() -> list[Factors]:
            errors = rated.matrix(rated.products(users, items) + mean - target)
            decay = np.float32(penalty)
            towards = np.float32(social) * (pull @ users)
            return [errors @ items + decay * users + towards, errors.T @ users + decay * items]

        def predict(user: Ids, item: Ids) -> Factors:
            predicted: Factors = np.einsum("nk,nk->n", users[user], items[item]) + mean
            return predicted

        parameters = [users, items]
        return descend(parameters, gradients, lambda: pooled.scores(predict), self.rate, self.steps, self.patience)


def similarities(pooled: PooledRatings) -> scipy.sparse.csr_matrix:
    """float32 [users, users]: of each user and each whom it trusts, in [0, 1]; 0.5 where nothing is known."""
    rated = pooled.rated
    count = np.maximum(np.bincount(rated.row, minlength=pooled.users), 1)
    means = (np.bincount(rated.row, pooled.target, pooled.users) / count).astype(np.float32)
    centred = rated.matrix(pooled.target - means[rated.row])
    squares, ones = centred.multiply(centred).tocsr(), rated.matrix(np.ones_like(pooled.target))
    source, target = pooled.shard.trust
    similarity = np.empty(len(source), np.float32)
    for first in range(0, len(source), CHUNK):
        one, other = source[first : first + CHUNK], target[first : first + CHUNK]
        together = _row_sums(centred[one], centred[other])
        lengths = _row_sums(squares[one], ones[other]) * _row_sums(ones[one], squares[other])
        known = (_row_sums(ones[one], ones[other]) >= 2) & (lengths > 1e-12)
        correlation = np.divide(together, np.sqrt(lengths), out=np.zeros_like(together), where=known)
        similarity[first : first + CHUNK] = (np.clip(correlation, -1, 1) + 1) / 2
    return scipy.sparse.csr_matrix((similarity, (source, target)), shape=(pooled.users, pooled.users))


def pull_towards_trusted(similar: scipy.sparse.csr_matrix, form: str) -> scipy.sparse.csr_matrix:
    """float32 [users, users], L with L U half of the gradient of S; symmetric and positive semidefinite."""
    if form == "individual":
        both = similar + similar.T
        pull = scipy.sparse.diags(np.asarray(both.sum(axis=1)).ravel()) - both
    else:
        total = np.asarray(similar.sum(axis=1)).ravel()
        inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        away = scipy.sparse.diags((total > 0).astype(np.float32)) - scipy.sparse.diags(inverse) @ similar
        pull = away.T @ away
    return pull.tocsr().astype(np.float32)


def _row_sums(one: scipy.sparse.csr_matrix, other: scipy.sparse.csr_matrix) -> Factors:
    return np.asarray(one.multiply(other).sum(axis=1), np.float32).ravel()
