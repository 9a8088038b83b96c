"""Users of several clients get numbers in common, by tokens of their ids: no site tells an id, none has a list of all.

Numbers say whom clients tell each other of (`shared_user_statistics`). Users are kept in the order of their ids.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fedgraft.domains.ratings.shards import Ids, Ratings, RatingShard
from fedgraft.wire.layouts import Array, Arrays
from fedgraft.wire.masking import matching_bytes
from fedgraft.wire.tokens import SECRET_BYTES, TOKEN_BYTES, numbered, tokens

DOMAIN: Final = "user of clients"


def names_of(user_ids: Array, secret: bytes) -> Arrays:
    """Return what a client claims, arrays of `tokens.NAMES`: a token for each user's id."""
    return {"token": tokens(secret, DOMAIN, ((str(each),) for each in user_ids))}


def with_numbers(shard: RatingShard, number: Ids) -> RatingShard:
    """Return a shard whose users have these numbers in common with others, int64 [users], in no order."""
    return replace(shard, users=number.astype(np.int64))


def numbered_alike(shards: Sequence[RatingShard]) -> list[RatingShard]:
    """Return the shards of all clients with the numbers that a server of their sites would give to users."""
    secret = secrets.token_bytes(SECRET_BYTES)
    numbers = numbered({client: names_of(shard.user_ids, secret) for client, shard in enumerate(shards)})
    return [with_numbers(shard, numbers[client]["number"]) for client, shard in enumerate(shards)]


def bytes_of(ratings: Ratings, is_private: bool) -> Mapping[int, tuple[int, int]]:
    """Return what that takes, {client: (bytes down, bytes up)}, of ratings whose clients the data name."""
    assert ratings.client is not None, "it was checked"
    users = np.bincount(np.unique(ratings.client * ratings.users + ratings.user) // ratings.users).tolist()
    names: dict[int, Arrays] = {k: {"token": np.zeros((n, TOKEN_BYTES), np.uint8)} for k, n in enumerate(users)}
    numbers: dict[int, Arrays] = {k: {"number": np.zeros(n, np.uint32)} for k, n in enumerate(users)}
    return matching_bytes(names, numbers, len(names), is_private)
