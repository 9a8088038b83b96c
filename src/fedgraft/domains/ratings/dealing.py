"""From a whole set of ratings to each client's part of it."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.data import Clients, Purpose
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.values import SPLITS
from fedgraft.domains.dealing import by_key
from fedgraft.domains.keyed_split import split_all, split_by_hash
from fedgraft.domains.notes import LOG, tell
from fedgraft.domains.ratings.shards import (
    SHARES,
    Ids,
    Ratings,
    RatingShard,
    drop_repeats,
    held_out,
    partition_by_category,
    split,
)
from fedgraft.errors import InputError, require
from fedgraft.wire.layouts import Array, Arrays
from fedgraft.wire.masking import matching_bytes
from fedgraft.wire.tokens import SECRET_BYTES, TOKEN_BYTES, numbered, tokens


def make_shards(
    ratings: Ratings, clients: int | None, partition: str, seed: int, split_seed: int | None = None
) -> list[RatingShard]:
    """One shard per client; arguments and errors as `deal`."""
    dealt = deal(ratings, clients, partition, seed, split_seed)
    return [dealt.make(client) for client in range(len(dealt.names))]


def deal(
    ratings: Ratings, clients: int | None, partition: str, seed: int, split_seed: int | None = None
) -> Clients[RatingShard]:
    """Return clients with shards partitioned and split by `seed`; the notes of `ratings` go to the log.

    The rule for duplicates is applied here if it was not before. The partition is one of `PARTITIONS`, or "given" to
    use `ratings.client`: then `clients` is None. With a `split_seed` the split is by the hash of users and items.
    """
    ratings = drop_repeats(ratings)
    tell(ratings.notes)
    if partition == "given":
        owner, names = _given(ratings, clients)
    elif ratings.categories == 1 and (clients or 0) > 1:
        owner, names = _dealt_by_item(ratings, clients or 0, generator(seed, "partition"))
    else:
        require(clients is not None, "clients", "a number", clients)
        dealt = partition_by_category(ratings, clients or 0, partition, generator(seed, "partition"))
        owner_of = np.zeros(ratings.categories, np.int64)
        for client, categories in enumerate(dealt):
            owner_of[categories] = client
        owner = owner_of[ratings.category]
        names = [_name(categories, ratings.category_names) for categories in dealt]
    if split_seed is not None:
        ratings = _split_by_hash(ratings, split_seed, owner)
    _check_held_out(owner, ratings)
    return Clients(names, _Dealt(ratings, owner, names, seed).shard)


def _split_by_hash(ratings: Ratings, seed: int, owner: Ids) -> Ratings:
    """Return ratings that are split by the hash of their ids, unless the data say how; `owner` as of `_Dealt`.

    Where every client has too few for each split, but they have enough together, no split of the whole is empty.
    """
    if ratings.split is not None or ratings.time is not None:
        return ratings
    rows, held = ratings.hashes(), (SHARES[1], SHARES[2])
    split = split_all(rows, seed, held, owner)
    if len(np.unique(split)) < len(SPLITS) and len(rows) < len(SPLITS):
        raise InputError(f"{len(rows)} ratings are too few: one is needed for training, validation and test each.")
    return replace(ratings, split=split)


def _check_held_out(owner: Ids, ratings: Ratings) -> None:
    """Raise `InputError` where no client has a validation rating, or none a test rating."""
    if ratings.split is not None:
        missing = [name for place, name in enumerate(SPLITS) if not (ratings.split == place).any()]
        require(not missing, "The column of splits", "a rating in each split", f"none for {', '.join(missing)}")
        return
    counts = np.bincount(owner)
    groups = np.bincount(np.unique(owner * ratings.categories + ratings.category) // ratings.categories)
    for name, sizes in zip(SPLITS[1:], held_out(counts, groups, SHARES), strict=True):
        if not (sizes > 0).any():
            raise InputError(
                f"No client has a {name} rating: a tenth of each client's ratings, rounded, is held out, "
                f"so one of them needs at least six; the largest has {counts.max()}."
            )


def whole_shard(ratings: Ratings, purpose: Purpose, by_hash: bool = False) -> RatingShard:
    """Return one client with all of the data, split as among others, or all known; the notes go to the log.

    Users, items and categories are numbered by what the client has. The purpose is to train, or to answer by. Ratings
    may be split `by_hash` of users and items.
    """
    ratings = drop_repeats(ratings)
    tell(ratings.notes)
    owner = np.full(len(ratings.rating), purpose.client, np.int64)
    if by_hash and ratings.split is None and ratings.time is None:
        split = split_by_hash(ratings.hashes(), purpose.split_seed or 0, (SHARES[1], SHARES[2]))
        ratings = replace(ratings, split=split)
    shard = _Dealt(ratings, owner, [purpose.name] * (purpose.client + 1), purpose.seed).shard(purpose.client)
    return shard if purpose.trains else replace(shard, split=np.zeros_like(shard.split))


def _given(ratings: Ratings, clients: int | None) -> tuple[Ids, list[str]]:
    if ratings.client is None:
        raise InputError("partition='given' needs data that name each rating's client; these do not.")
    clients_there = int(ratings.client.max()) + 1
    names = list(ratings.client_names) or [f"client {client}" for client in range(clients_there)]
    require(clients is None or clients == len(names), "clients", f"{len(names)}, as many as the data name", clients)
    counts = np.bincount(ratings.client, minlength=len(names))
    if (counts == 0).any():
        raise InputError(f"Client {names[int(counts.argmin())]!r} is empty: it needs at least one rating.")
    return ratings.client, names


def _dealt_by_item(ratings: Ratings, clients: int, g: np.random.Generator) -> tuple[Ids, list[str]]:
    """Return each rating's client where data know neither clients nor categories: whole items, dealt at random."""
    require(clients <= ratings.items, "clients", f"at most {ratings.items}, the number of items", clients)
    LOG.warning("No column names a client or a category: items are dealt to %d clients at random.", clients)
    return (g.permutation(ratings.items) % clients)[ratings.item], [f"client-{k}" for k in range(clients)]


def _name(categories: Ids, names: Sequence[str]) -> str:
    words = [names[c] if names else f"category {c}" for c in categories]
    more = [f"{len(words) - 3} more"] if len(words) > 3 else []
    return " + ".join(words[:3] + more)


class _Dealt:
    """A whole data set, sorted so that a client's part of it is found without a look at all others'.

    `owner` is int64 [n], the client of each rating; the seed is that of the split.
    """

    def __init__(self, ratings: Ratings, owner: Ids, names: Sequence[str], seed: int) -> None:
        self._ratings, self._names, self._seed = ratings, names, seed
        self._rows, self._starts = by_key(owner, len(names))
        self._links, self._sources = by_key(ratings.trust[0], ratings.users)

    def shard(self, client: int) -> RatingShard:
        """Return one client's shard."""
        ratings, rows = self._ratings, self._rows[self._starts[client] : self._starts[client + 1]]
        users, user = np.unique(ratings.user[rows], return_inverse=True)
        items, item = np.unique(ratings.item[rows], return_inverse=True)
        category = ratings.category[rows]
        return RatingShard(
            name=self._names[client],
            users=users,
            items=items,
            user=user.astype(np.int64),
            item=item.astype(np.int64),
            category=category,
            rating=ratings.rating[rows],
            split=self._split(client, rows),
            trust=self._trust(users),
            scale=ratings.scale,
            n_categories=ratings.categories,
            user_ids=users if ratings.user_ids is None else ratings.user_ids[users],
            item_ids=items if ratings.item_ids is None else ratings.item_ids[items],
        )

    def _split(self, client: int, rows: Ids) -> NDArray[np.uint8]:
        """Return the split of a client's ratings, uint8 [rows]."""
        ratings, g = self._ratings, generator(self._seed, "split", client=client)
        if ratings.split is not None:
            return ratings.split[rows].astype(np.uint8)
        time = None if ratings.time is None else ratings.time[rows]
        return split(len(rows), g, groups=ratings.category[rows], time=time)

    def _trust(self, users: Ids) -> Ids:
        """Links between some users, ascending, in the order of all links: int64 [2, m], places among `users`."""
        begin, counts = self._sources[users], self._sources[users + 1] - self._sources[users]
        place = np.arange(counts.sum()) + np.repeat(begin - np.cumsum(counts) + counts, counts)
        source, target = self._ratings.trust[:, np.sort(self._links[place])]
        place_of_target = np.minimum(np.searchsorted(users, target), len(users) - 1)
        here = users[place_of_target] == target
        return np.stack([np.searchsorted(users, source[here]), place_of_target[here]])


# --- common users -----------------------------------------------------------------------------------------------------


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
