"""Compute what a set of ratings says of users and items: biases, and features of pairs and of nodes.

Everything here is computed from the `Known` ratings and from trust links, and from nothing else. Training examples get
their features from a `Known` that lacks them (they lie in another fold), so that no rating can be seen by its own
prediction, at any order: not through a bias, a friend, a rater of the item, or a message.

Features are differences from the client's own mean, shrunk towards 0 where little is known, so that the same number
means the same at every client; constants bring each to about unit size.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fedgraft.domains.ratings.biases import fit_biases
from fedgraft.domains.ratings.shards import Ids, RatingShard

Floats = NDArray[np.float64]
Features = NDArray[np.float32]

CLIP = 4.0
"""Features are clipped to [-CLIP, CLIP]: a few popular items would dominate otherwise."""
USER_SHRINKAGE, ITEM_SHRINKAGE = 5.0, 3.0
"""Pseudo-ratings at the client's mean that every user and item is given in spreads and shares."""
CATEGORY_SHRINKAGE = 50.0
"""The same for a category's bias; categories have thousands of ratings."""


@dataclass(frozen=True, eq=False)
class Known:
    """Ratings that may be used, by their positions in the client's own data, and what follows from them.

    The shrinkages are pseudo-ratings of bias 0 per user, or item, in the bias fit.
    """

    shard: RatingShard
    rows: Ids
    user_bias_shrinkage: float = 9.0
    item_bias_shrinkage: float = 2.0

    @property
    def users(self) -> int:
        """int, the number of users of the client."""
        return len(self.shard.users)

    @property
    def items(self) -> int:
        """int, the number of items of the client."""
        return len(self.shard.items)

    @cached_property
    def user(self) -> Ids:
        """int64 [ratings], the local user of each known rating."""
        return self.shard.user[self.rows]

    @cached_property
    def item(self) -> Ids:
        """int64 [ratings], the local item of each known rating."""
        return self.shard.item[self.rows]

    @cached_property
    def rating(self) -> Floats:
        """float64 [ratings], each known rating."""
        return self.shard.rating[self.rows].astype(np.float64)

    @cached_property
    def biases(self) -> tuple[float, Floats, Floats]:
        """Mean, biases [users] and [items]; where no rating is known, the middle of the scale and zeros."""
        return fit_biases(
            self.user,
            self.item,
            self.rating,
            self.users,
            self.items,
            self.user_bias_shrinkage,
            self.item_bias_shrinkage,
            mean=None if len(self.rows) else sum(self.shard.scale) / 2,
        )

    @cached_property
    def centred(self) -> Floats:
        """float64 [ratings], known ratings less their mean."""
        return self.rating - self.biases[0]

    @cached_property
    def residual(self) -> Floats:
        """float64 [ratings], ratings less mean and both biases."""
        _, user_bias, item_bias = self.biases
        return self.centred - user_bias[self.user] - item_bias[self.item]

    @cached_property
    def by_user(self) -> "Side":
        """The ratings that each user gave."""
        return Side(self, self.user, self.users, self.biases[1], self.biases[2][self.item], USER_SHRINKAGE)

    @cached_property
    def by_item(self) -> "Side":
        """The ratings that each item got."""
        return Side(self, self.item, self.items, self.biases[2], self.biases[1][self.user], ITEM_SHRINKAGE)

    @cached_property
    def trusts(self) -> scipy.sparse.csr_matrix:
        """0/1 [users, users]: row u, column v where u trusts v."""
        source, target = self.shard.trust
        ones = np.ones(len(source), dtype=np.float32)
        return scipy.sparse.csr_matrix((ones, (source, target)), shape=(self.users, self.users))

    @cached_property
    def trusted_by(self) -> scipy.sparse.csr_matrix:
        """Its transpose: row u, column v where v trusts u."""
        return self.trusts.T.tocsr()

    @cached_property
    def rated(self) -> scipy.sparse.csr_matrix:
        """0/1 [items, users]: row i, column u where u has rated i."""
        return self.at_items(np.ones(len(self.rows)))

    @cached_property
    def liked(self) -> scipy.sparse.csr_matrix:
        """float64 [items, users], known ratings less their mean and the user's bias."""
        return self.at_items(self.centred - self.biases[1][self.user])

    def at_items(self, values: Floats) -> scipy.sparse.csr_matrix:
        """One value per known rating, as [items, users]."""
        return scipy.sparse.csr_matrix((values, (self.item, self.user)), shape=(self.items, self.users))

    def base(self, user: Ids, item: Ids) -> Floats:
        """float64 [pairs], the prediction that biases make, for pairs of local ids."""
        mean, user_bias, item_bias = self.biases
        return mean + user_bias[user] + item_bias[item]


@dataclass(frozen=True, eq=False)
class Side:
    """Statistics per user, or per item, of the known ratings; `count` is how many users or items there are.

    `index` says who each rating belongs to on this side, `bias` is [count], and `others`, per known rating, the bias at
    its other end. The shrinkage is pseudo-ratings at the client's mean.
    """

    known: Known
    index: Ids
    count: int
    bias: Floats
    others: Floats
    shrinkage: float

    @cached_property
    def ratings(self) -> Ids:
        """int64 [count], the number of ratings of each."""
        return np.bincount(self.index, minlength=self.count)

    @cached_property
    def spread(self) -> Floats:
        """float64 [count], root mean square residual, shrunk to the client's, less the client's."""
        squares = self.known.residual**2
        overall = _mean(squares)
        return np.asarray(np.sqrt(self._shrunk(squares, overall)) - np.sqrt(overall))

    @cached_property
    def mean(self) -> Floats:
        """float64 [count], mean rating less the client's mean, shrunk to 0 by three pseudo-ratings."""
        return np.bincount(self.index, self.known.centred, self.count) / (self.ratings + 3.0)

    @cached_property
    def other_bias(self) -> Floats:
        """float64 [count], mean bias at the other end of its ratings, shrunk to 0."""
        return np.bincount(self.index, self.others, self.count) / (self.ratings + self.shrinkage)

    @cached_property
    def best(self) -> Floats:
        """float64 [count], share of its ratings at the top of the scale, shrunk to the client's, less the client's."""
        return self._share(self.known.rating >= self.known.shard.scale[1])

    @cached_property
    def poor(self) -> Floats:
        """float64 [count], share of its ratings in the lowest quarter of the scale, likewise."""
        low, high = self.known.shard.scale
        return self._share(self.known.rating <= low + (high - low) / 4)

    def _share(self, flag: NDArray[np.bool_]) -> Floats:
        values = flag.astype(np.float64)
        overall = _mean(values)
        return self._shrunk(values, overall) - overall

    def _shrunk(self, values: Floats, overall: float) -> Floats:
        total = np.bincount(self.index, values, self.count)
        return (total + self.shrinkage * overall) / (self.ratings + self.shrinkage)


def _clipped(features: Floats) -> Features:
    return np.clip(features, -CLIP, CLIP).astype(np.float32)


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def pair_features(known: Known, user: Ids, item: Ids, category: Ids) -> Features:
    """Features of (user, item) pairs of local ids, float32 [pairs, PAIR_WIDTH]; their ratings are not in `known`."""
    by_user, by_item = known.by_user, known.by_item
    mean, user_bias, item_bias = known.biases
    low, high = known.shard.scale
    scaled = 4.0 / (high - low)  # constants below are for ratings 1..5
    taste, tastes, category_bias, category_count = _category_features(known, user, category)
    out_degree, in_degree = np.diff(known.trusts.indptr), np.diff(known.trusted_by.indptr)
    out_bias = (known.trusts @ user_bias) / (out_degree + 5.0)
    in_bias = (known.trusted_by @ user_bias) / (in_degree + 5.0)
    trusted_rating, trusted_raters = _friends_rating(known, known.trusts, user, item)
    trusting_rating, trusting_raters = _friends_rating(known, known.trusted_by, user, item)
    columns = [
        2.0 * scaled * user_bias[user],
        2.0 * scaled * item_bias[item],
        4.0 * scaled * taste,
        0.5 * np.log1p(tastes),
        4.0 * scaled * category_bias,
        0.25 * np.log1p(category_count) - 2.0,
        0.5 * np.log1p(by_user.ratings[user]) - 1.5,
        0.7 * np.log1p(by_item.ratings[item]) - 0.7,
        3.0 * scaled * by_user.spread[user],
        3.0 * scaled * by_item.spread[item],
        5.0 * scaled * out_bias[user],
        5.0 * scaled * in_bias[user],
        0.4 * np.log1p(out_degree[user]) - 1.0,
        0.4 * np.log1p(in_degree[user]) - 1.0,
        2.0 * scaled * trusted_rating,
        np.log1p(trusted_raters),
        2.0 * scaled * trusting_rating,
        np.log1p(trusting_raters),
        3.0 * scaled * by_item.other_bias[item],
        4.0 * scaled * by_user.other_bias[user],
        3.0 * by_user.best[user],
        3.0 * by_item.best[item],
        4.0 * by_user.poor[user],
        4.0 * by_item.poor[item],
        np.full(len(user), 2.0 * scaled * (mean - (low + 0.75 * (high - low)))),
        1.5 * scaled * by_user.mean[user],
        1.5 * scaled * by_item.mean[item],
    ]
    return _clipped(np.stack(columns, axis=1))


PAIR_WIDTH = 27
"""Columns of `pair_features`."""
TASTE, FRIENDS = slice(2, 4), slice(14, 18)
"""Those that depend on the user and the category, and on user and item; each other one depends on one of the ends."""


def node_features(known: Known) -> Features:
    """Features of the client's users and then its items, float32 [users + items, NODE_WIDTH]."""
    trusting = 0.4 * np.log1p(np.diff(known.trusted_by.indptr)) - 1.0
    users = np.column_stack([np.ones(known.users), np.zeros(known.users), trusting, _side_features(known.by_user)])
    items = np.column_stack([np.zeros(known.items), np.ones(known.items), np.zeros(known.items)])
    items = np.column_stack([items, _side_features(known.by_item)])
    return _clipped(np.concatenate([users, items]))


NODE_WIDTH = 9
"""Columns of `node_features`."""


def _side_features(side: Side) -> Floats:
    low, high = side.known.shard.scale
    scaled = 4.0 / (high - low)
    columns = [
        0.5 * np.log1p(side.ratings) - 1.0,
        2.0 * scaled * side.bias,
        3.0 * scaled * side.spread,
        3.0 * side.best,
        4.0 * side.poor,
        3.0 * scaled * side.other_bias,
    ]
    return np.stack(columns, axis=1)


def _category_features(known: Known, user: Ids, category: Ids) -> tuple[Floats, Ids, Floats, Ids]:
    """Per pair: the user's shrunk residual in the category and how often it rated there; the category's, likewise."""
    here, place = np.unique(np.concatenate([known.shard.category[known.rows], category]), return_inverse=True)
    categories, known_category, category = len(here), place[: len(known.rows)], place[len(known.rows) :]
    cell = known.user * categories + known_category
    wanted = user * categories + category
    count = np.bincount(cell, minlength=known.users * categories)
    total = np.bincount(cell, known.residual, known.users * categories)
    category_count = np.bincount(known_category, minlength=categories)
    category_total = np.bincount(known_category, known.residual, categories)
    # Without shrinkage, who has no rating in the category would have 0 / 0.
    taste = total[wanted] / np.maximum(count[wanted] + known.user_bias_shrinkage, 1.0)
    category_bias = category_total / (category_count + CATEGORY_SHRINKAGE)
    return taste, count[wanted], category_bias[category], category_count[category]


def _friends_rating(known: Known, links: scipy.sparse.csr_matrix, user: Ids, item: Ids) -> tuple[Floats, Floats]:
    """Per pair: what the user's friends gave this very item, less their own biases, shrunk; and how many they are."""
    friends = links[user]
    count = np.asarray(friends.multiply(known.rated[item]).sum(axis=1)).ravel()
    total = np.asarray(friends.multiply(known.liked[item]).sum(axis=1)).ravel()
    return total / (count + 1.0), count
