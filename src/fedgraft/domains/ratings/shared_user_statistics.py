"""What users do at other clients, published once in a byte each: an exchange of statistics before training.

Shops share customers. Each client publishes which users it has (one bit per user of the common id space, up to its
last) and a byte for each: a coarse mean of its residuals and a coarse number of ratings. The server adds, for each
client and user, what the *other* clients said, and answers with a byte per user of that client. No item, no rating and
no link leaves a client; who its users are and how generously they rate there does, so this is an option that a recipe
names.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgraft.domains.ratings.features import CLIP, USER_SHRINKAGE, Features, Known
from fedgraft.domains.ratings.shards import Ids
from fedgraft.errors import WireError
from fedgraft.wire.bits import count_bits, set_bits
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout, Spec

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

LEVELS, RANGE = 32, 0.5
"""A byte's five bits for a mean: equal steps over +-RANGE of the scale's width."""
COUNT_CODES = 8
"""Its other three bits: 0, 1, 2-3, 4-7, ... ratings, told by the power of two below."""

FRIEND_SHRINKAGE = 5.0
"""Friends without any bias that everybody is given beside the own."""

PUBLISHED = Layout((Spec("users", "uint8", (VARIABLE,)), Spec("codes", "uint8", (VARIABLE,))))
ANSWERED = Layout((Spec("codes", "uint8", (VARIABLE,)),))


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """Statistics of a client's users at other clients, float64 [users] each.

    Args:
        residual: their mean, less mean and item bias there, as a share of the scale's width; 0 without any.
        ratings: how many there are, about.
    """

    residual: Floats
    ratings: Floats

    def padded(self, users: int) -> "Elsewhere":
        """With nothing known of users beyond those it covers."""
        more = np.zeros(users - len(self.residual))
        return Elsewhere(np.concatenate([self.residual, more]), np.concatenate([self.ratings, more]))

    def pair_columns(self, known: Known, user: Ids) -> Features:
        """Features of pairs, float32 [pairs, PAIR_COLUMNS]: the user's residual and number elsewhere, its friends'."""
        shrunk = 4.0 * self.residual * self.ratings / (self.ratings + USER_SHRINKAGE)
        friends = np.diff(known.trusts.indptr) + np.diff(known.trusted_by.indptr)
        trusted = (known.trusts @ shrunk + known.trusted_by @ shrunk) / (friends + FRIEND_SHRINKAGE)
        columns = np.stack([3.0 * shrunk[user], 0.5 * np.log1p(self.ratings[user]), 5.0 * trusted[user]], axis=1)
        features: Features = np.clip(columns, -CLIP, CLIP).astype(np.float32)
        return features

    def node_columns(self, known: Known) -> Features:
        """Features of users and then items, float32 [users + items, NODE_COLUMNS]."""
        shrunk = 4.0 * self.residual * self.ratings / (self.ratings + USER_SHRINKAGE)
        users = np.stack([3.0 * shrunk, 0.5 * np.log1p(self.ratings)], axis=1)
        columns = np.concatenate([users, np.zeros((known.items, NODE_COLUMNS))])
        features: Features = np.clip(columns, -CLIP, CLIP).astype(np.float32)
        return features


PAIR_COLUMNS, NODE_COLUMNS = 3, 2


def publish(known: Known) -> Arrays:
    """A client's bits and bytes, about its users with known ratings."""
    _, _, item_bias = known.biases
    low, high = known.shard.scale
    count = known.by_user.ratings
    total = np.bincount(known.user, known.centred - item_bias[known.item], known.users) / (high - low)
    having = np.flatnonzero(count)
    present = np.zeros(int(known.shard.users[having].max(initial=-1)) + 1, dtype=np.uint8)
    present[known.shard.users[having]] = 1
    return {"users": np.packbits(present), "codes": _encode(total[having] / count[having], count[having])}


def check(published: Arrays) -> None:
    """Raise `WireError` unless there is one byte per user named."""
    users, codes = count_bits(published["users"]), len(published["codes"])
    if users != codes:
        raise WireError(f"names {users} users but has {codes} codes")


def combine(published: Mapping[int, Arrays], least: int) -> dict[int, Arrays]:
    """Server: what the other clients said of each client's users, in ascending order of users.

    Args:
        published: of every client.
        least: fewest clients that must have a user, the one that is answered among them; nothing is said of others.
    """
    named = {client: set_bits(arrays["users"]) for client, arrays in published.items()}
    # A row for each user that anybody has: how far ids reach costs the server nothing.
    every = np.unique(np.concatenate([np.zeros(0, np.int64), *named.values()]))
    users = {client: np.searchsorted(every, ids) for client, ids in named.items()}
    size = len(every)
    reported: dict[int, tuple[Floats, Floats]] = {}
    total, count, having = np.zeros(size), np.zeros(size), np.zeros(size, np.int64)
    for client, ids in users.items():
        mean, ratings = _decode(published[client]["codes"])
        # In whole steps, so that taking a client's own part away leaves nothing of it, not even a rounding error.
        reported[client] = np.rint(mean * (LEVELS - 1) / RANGE) * ratings, ratings
        total[ids] += reported[client][0]
        count[ids] += reported[client][1]
        having[ids] += 1
    answers = {}
    for client, ids in users.items():
        told = having[ids] >= least
        others = np.where(told, count[ids] - reported[client][1], 0.0)
        rest = np.where(told, total[ids] - reported[client][0], 0.0)
        mean = np.divide(rest, others, out=np.zeros(len(ids)), where=others > 0)
        answers[client] = {"codes": _encode(mean * RANGE / (LEVELS - 1), others)}
    return answers


def understand(known: Known, codes: Array) -> Elsewhere:
    """A client's reading of the server's answer; nothing if it never came."""
    residual, ratings = np.zeros(known.users), np.zeros(known.users)
    having = np.flatnonzero(known.by_user.ratings)
    if len(codes) == len(having):
        residual[having], ratings[having] = _decode(codes)
    elif len(codes):
        raise WireError(f"The server's answer is about {len(codes)} users; {len(having)} were asked about.")
    return Elsewhere(residual, ratings)


def _encode(mean: Floats, count: NDArray[np.integer] | Floats) -> Bytes:
    level = np.clip(np.rint((mean + RANGE) / (2 * RANGE) * (LEVELS - 1)), 0, LEVELS - 1)
    # 0 ratings have code 0, 1 has 1, 2-3 have 2, 4-7 have 3 ...
    code = np.where(count > 0, np.minimum(np.floor(np.log2(np.maximum(count, 1))) + 1, COUNT_CODES - 1), 0)
    return (level * COUNT_CODES + code).astype(np.uint8)


def _decode(codes: Array) -> tuple[Floats, Floats]:
    level, code = np.divmod(codes.astype(np.int64), COUNT_CODES)
    mean = level / (LEVELS - 1) * (2 * RANGE) - RANGE
    # The middle of 2-3, 4-7 ...; exact for none and one.
    count = np.where(code > 0, np.where(code > 1, 1.5, 1.0) * 2.0 ** (code - 1), 0.0)
    return np.where(code > 0, mean, 0.0), count
