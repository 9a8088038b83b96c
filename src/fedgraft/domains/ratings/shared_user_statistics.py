"""Publish what users do at other clients, once, in a byte or two each, before training.

Shops share customers. Each client publishes which users it has (one bit per user of the common id space, up to its
last) and, of each, a mean of its residuals and a number of ratings, in one byte (`COARSE`) or two (`FINE`). The server
adds, for each client and user, what the *other* clients said, and answers in the same code. No item, no rating and no
link leaves a client; who its users are and how generously they rate there does, so this is an option that a recipe
names.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgraft.domains.ratings.features import CLIP, USER_SHRINKAGE, Features, Known
from fedgraft.domains.ratings.shards import UNNUMBERED, Ids
from fedgraft.errors import WireError
from fedgraft.wire.bits import count_bits, set_bits
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout, Spec

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

RANGE = 0.5
"""Means are told within +-RANGE of the scale's width."""

FRIEND_SHRINKAGE = 5.0
"""Friends without any bias that everybody is given beside the own."""

PUBLISHED = Layout((Spec("users", "uint8", (VARIABLE,), "users"), Spec("codes", "uint8", (VARIABLE,), "users")))
ANSWERED = Layout((Spec("codes", "uint8", (VARIABLE,)),))


@dataclass(frozen=True, eq=False)
class RemoteRatings:
    """Statistics of a client's users at other clients, float64 [users] each.

    `shrunk` is by how much they rate higher there than others do, in quarters of the scale's width, nearer to 0 the
    less is known, 0 without any ratings; `ratings` is how many there are, about.
    """

    shrunk: Floats
    ratings: Floats

    @classmethod
    def of_means(cls, residual: Floats, ratings: Floats) -> "RemoteRatings":
        """Make them from means of ratings, less mean and item bias there, as shares of the scale's width."""
        return cls(4.0 * residual * ratings / (ratings + USER_SHRINKAGE), ratings)

    @classmethod
    def nothing(cls, users: int) -> "RemoteRatings":
        """Return that nothing is known of so many users."""
        return cls(np.zeros(users), np.zeros(users))

    def padded(self, users: int) -> "RemoteRatings":
        """With nothing known of users beyond those it covers."""
        more = np.zeros(users - len(self.shrunk))
        return RemoteRatings(np.concatenate([self.shrunk, more]), np.concatenate([self.ratings, more]))

    def pair_columns(self, known: Known, user: Ids) -> Features:
        """Features of pairs, float32 [pairs, PAIR_COLUMNS]: the user's residual and number elsewhere, its friends'."""
        shrunk = self.shrunk
        friends = np.diff(known.trusts.indptr) + np.diff(known.trusted_by.indptr)
        trusted = (known.trusts @ shrunk + known.trusted_by @ shrunk) / (friends + FRIEND_SHRINKAGE)
        columns = np.stack([3.0 * shrunk[user], 0.5 * np.log1p(self.ratings[user]), 5.0 * trusted[user]], axis=1)
        return np.asarray(np.clip(columns, -CLIP, CLIP).astype(np.float32))

    def node_columns(self, known: Known) -> Features:
        """Features of users and then items, float32 [users + items, NODE_COLUMNS]."""
        users = np.stack([3.0 * self.shrunk, 0.5 * np.log1p(self.ratings)], axis=1)
        columns = np.concatenate([users, np.zeros((known.items, NODE_COLUMNS))])
        return np.asarray(np.clip(columns, -CLIP, CLIP).astype(np.float32))


PAIR_COLUMNS, NODE_COLUMNS = 3, 2


class Code(ABC):
    """How a user's mean and number of ratings are told, in so many bytes a user (`width`).

    `levels` are equal steps between the lowest and the highest mean, both told exactly.
    """

    width: int
    levels: int

    @abstractmethod
    def encode(self, mean: Floats, ratings: NDArray[np.integer] | Floats) -> Bytes:
        """Return uint8 [width users]."""

    @abstractmethod
    def decode(self, codes: Array) -> tuple[Floats, Floats]:
        """Return means and numbers, float64 [users] each; both 0 where there are no ratings."""

    def weights(self, ratings: Floats) -> Floats:
        """Return how much a client's mean counts beside others' by its ratings, float64 [users] of whole numbers."""
        return ratings

    def ratings(self, weights: Floats) -> Floats:
        """Return how many ratings the weights of several clients are worth, float64 [users]."""
        return weights

    def level(self, mean: Floats) -> NDArray[np.int64]:
        """Return the nearest step to each mean, int64 [users], from 0."""
        return np.clip(np.rint((mean + RANGE) / (2 * RANGE) * self.levels), 0, self.levels).astype(np.int64)

    def mean(self, level: NDArray[np.int64]) -> Floats:
        """Return the mean at each step, float64 [users]."""
        return np.asarray(level / self.levels * (2 * RANGE) - RANGE)


class Coarse(Code):
    """A byte: five bits for a mean, three for a number: 0, 1, 2-3, 4-7, ... ratings, told by the power of two below.

    A mean counts by its ratings.
    """

    width, levels, counts = 1, 31, 8

    def encode(self, mean: Floats, ratings: NDArray[np.integer] | Floats) -> Bytes:
        """Return uint8 [users]."""
        # 0 ratings have code 0, 1 has 1, 2-3 have 2, 4-7 have 3 ...
        power = np.minimum(np.floor(np.log2(np.maximum(ratings, 1))) + 1, self.counts - 1)
        return (self.level(mean) * self.counts + np.where(ratings > 0, power, 0)).astype(np.uint8)

    def decode(self, codes: Array) -> tuple[Floats, Floats]:
        """Return means and numbers, [users] each; the middle of 2-3, 4-7 ..., exact for none and one."""
        level, code = np.divmod(codes.astype(np.int64), self.counts)
        count = np.where(code > 0, np.where(code > 1, 1.5, 1.0) * 2.0 ** (code - 1), 0.0)
        return np.where(code > 0, self.mean(level), 0.0), count


class Fine(Code):
    """Two bytes: one for a mean, one for its weight v = n / (n + SPREAD) by its number of ratings n.

    A user rates somewhat otherwise at each client. With this random effect, many ratings at one client tell less than a
    few at each of several, and v is the weight of a mean, up to a factor: var(noise) / var(effect) is SPREAD.
    """

    width, levels = 2, 254

    def encode(self, mean: Floats, ratings: NDArray[np.integer] | Floats) -> Bytes:
        """Return uint8 [2 users]: each user's mean, then its weight, at least 1 where there are ratings."""
        weight = np.where(ratings > 0, np.clip(self.weights(ratings), 1, 254), 0)
        return np.stack([self.level(mean), weight], axis=1).astype(np.uint8).ravel()

    def decode(self, codes: Array) -> tuple[Floats, Floats]:
        """Return means and numbers, float64 [users] each."""
        level, weight = codes.astype(np.int64).reshape(-1, 2).T
        return np.where(weight > 0, self.mean(level), 0.0), SPREAD * weight / (255.0 - np.minimum(weight, 254))

    def weights(self, ratings: NDArray[np.integer] | Floats) -> Floats:
        """Return 255 v, rounded, float64 [users]."""
        return np.asarray(np.rint(255 * ratings / (ratings + SPREAD)))

    def ratings(self, weights: Floats) -> Floats:
        """Return how many ratings would tell as much, were there no such effect, float64 [users]."""
        return SPREAD * weights / 255


SPREAD = 12.0
"""Ratings whose mean is as uncertain as a user differs from client to client: about that of Ciao and Epinions."""
COARSE, FINE = Coarse(), Fine()
CODES: dict[str, Code] = {"users": COARSE, "effects": FINE}
"""By what the task is asked to share."""


def publish(known: Known, code: Code) -> Arrays:
    """A client's bits and bytes, about its users with known ratings."""
    _, _, item_bias = known.biases
    low, high = known.shard.scale
    count, having = known.by_user.ratings, _having(known)
    total = np.bincount(known.user, known.centred - item_bias[known.item], known.users) / (high - low)
    present = np.zeros(int(known.shard.users[having].max(initial=-1)) + 1, dtype=np.uint8)
    present[known.shard.users[having]] = 1
    return {"users": np.packbits(present), "codes": code.encode(total[having] / count[having], count[having])}


def _having(known: Known) -> NDArray[np.int64]:
    """Users with known ratings, in the order of the numbers that clients have in common."""
    having = np.flatnonzero(known.by_user.ratings)
    return having[np.argsort(known.shard.users[having], kind="stable")]


def check(published: Arrays, code: Code) -> None:
    """Raise `WireError` unless there is one code per user named."""
    users, codes = count_bits(published["users"]), len(published["codes"]) / code.width
    if users != codes:
        raise WireError(f"names {users} users but has {codes:g} codes")


def combine(published: Mapping[int, Arrays], least: int, code: Code) -> dict[int, Arrays]:
    """Server: what the other clients said of each client's users, in ascending order of users, in the same code.

    At least so many clients must have a user, the one that is answered among them; nothing is said of others.
    """
    named = {client: set_bits(arrays["users"]) for client, arrays in published.items()}
    # A row for each user that anybody has: how far ids reach costs the server nothing.
    every = np.unique(np.concatenate([np.zeros(0, np.int64), *named.values()]))
    users = {client: np.searchsorted(every, ids) for client, ids in named.items()}
    size = len(every)
    reported: dict[int, tuple[Floats, Floats]] = {}
    total, count, having = np.zeros(size), np.zeros(size), np.zeros(size, np.int64)
    for client, ids in users.items():
        mean, ratings = code.decode(published[client]["codes"])
        weights = code.weights(ratings)
        # In whole steps, so that taking a client's own part away leaves nothing of it, not even a rounding error.
        reported[client] = np.rint(mean * code.levels / RANGE) * weights, weights
        total[ids] += reported[client][0]
        count[ids] += reported[client][1]
        having[ids] += 1
    answers = {}
    for client, ids in users.items():
        enough = having[ids] >= least
        others = np.where(enough, count[ids] - reported[client][1], 0.0)
        rest = np.where(enough, total[ids] - reported[client][0], 0.0)
        mean = np.divide(rest, others, out=np.zeros(len(ids)), where=others > 0)
        answers[client] = {"codes": code.encode(mean * RANGE / code.levels, code.ratings(others))}
    return answers


def understand(known: Known, codes: Array, code: Code) -> RemoteRatings:
    """A client's reading of the server's answer; nothing if it never came, or its users have no number in common."""
    residual, ratings, having = np.zeros(known.users), np.zeros(known.users), _having(known)
    if known.shard.users.min(initial=0) == UNNUMBERED:
        return RemoteRatings.nothing(known.users)
    if len(codes) == code.width * len(having):
        residual[having], ratings[having] = code.decode(codes)
    elif len(codes):
        about = len(codes) / code.width
        raise WireError(f"The server's answer is about {about:g} users; {len(having)} were asked about.")
    return RemoteRatings.of_means(residual, ratings)
