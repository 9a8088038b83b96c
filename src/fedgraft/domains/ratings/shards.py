"""Ratings: the values every rating data set hands over, and the rules they share.

Rules, the same for every source:
    Scale       a rating outside the scale never gets here: user files raise, published sets drop it and say so.
    Duplicates  one rating per (user, item): the last row stands, as the user's latest word, whatever its category; a
                pair rated under two could otherwise be a test pair at one client and a training pair at another.
                Where the data names the clients itself, it is one per (user, item, client).
    Trust       links to oneself and repeated links go; a link is known to every client where both its ends occur.
    Occurrence  a user or item occurs at a client if it has a rating of any split there. That a node exists is no label;
                what it gave or got is, and that is split.
    Split       per client, seeded, 8:1:1, of own tables by the hash of user and item; or its latest ratings for test
                and those before them for validation where times are known; or as the data say. Unless they say, every
                category of a client keeps at least one training rating; by the hash every client does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import SPLITS
from fedgraft.domains.examples import Examples, check_numbers, last_of
from fedgraft.domains.keyed_split import Hashes, joined, named
from fedgraft.errors import InputError, require, require_one_of
from fedgraft.wire.layouts import Array

PARTITIONS = ("average", "skewed", "extreme")
"""Ways to hand whole categories to clients."""
SHARES = (0.8, 0.1, 0.1)
"""Of a client's ratings in each of `SPLITS`."""

UNNUMBERED = -1
"""In place of a user's global id, where clients have none in common."""

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ratings:
    """A whole rating data set, before it is partitioned. Ids are dense: 0..users-1, 0..items-1, 0..categories-1.

    Args:
        user: int64 [n]; item: int64 [n]; category: int64 [n]; rating: float32 [n] within `scale`.
        trust: int64 [2, m], directed: user `trust[0, k]` trusts user `trust[1, k]`.
        users: how many; items: how many; categories: how many.
        scale: lowest and highest rating there can be.
        client: int64 [n] where the data names the clients itself, else None.
        split: int8 [n], places in `SPLITS`, where the data names the splits itself, else None.
        time: float64 [n], when each was given, where ratings are split by it, else None.
        user_ids: [users] original ids, str or int; item_ids: [items] likewise.
        category_names: [categories]; client_names: one per client where the data names them.
        notes: what was left out or assumed on the way here, for people to read.
    """

    user: Ids
    item: Ids
    category: Ids
    rating: NDArray[np.float32]
    trust: Ids
    users: int
    items: int
    categories: int
    scale: tuple[float, float]
    client: Ids | None = None
    user_ids: Array | None = None
    item_ids: Array | None = None
    category_names: tuple[str, ...] = ()
    client_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    split: NDArray[np.int8] | None = None
    time: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        n = len(self.rating)
        require(n > 0, "Ratings.rating", "at least one rating", n)
        counts = {"user": self.users, "item": self.items, "category": self.categories}
        check_numbers("Ratings", counts, self, n, "ratings")
        per_row = n if self.client is None else len(self.client)
        require(per_row == n, "Ratings.client", f"as long as the {n} ratings", per_row)
        links = self.trust
        require(links.ndim == 2 and len(links) == 2, "Ratings.trust", "of shape [2, m]", links.shape)
        ends = (int(links.min()), int(links.max())) if links.size else (0, 0)
        require(ends[0] >= 0 and ends[1] < self.users, "Ratings.trust", f"within 0..{self.users - 1}", ends)
        low, high = self.scale
        require(low < high, "Ratings.scale", "two numbers, the lower one first", self.scale)
        within = bool((self.rating >= low).all() and (self.rating <= high).all())
        got = (float(self.rating.min()), float(self.rating.max()))
        require(within, "Ratings.rating", f"within the scale {low:g}..{high:g}", got)

    def hashes(self) -> Hashes:
        """Return a hash of the ids of each rating's user and item, uint64 [n]."""
        users = np.arange(self.users) if self.user_ids is None else self.user_ids
        items = np.arange(self.items) if self.item_ids is None else self.item_ids
        return joined(named(users)[self.user], named(items)[self.item])


@dataclass(frozen=True, eq=False)
class RatingShard(Examples):
    """One client's own ratings; NumPy only, so that it can be sent to a worker process.

    Args:
        name: the client's name.
        users: int64 [u], global ids of the users that occur here, ascending unless they were matched; items: int64 [i]
            likewise, ascending.
        user: int64 [n], index into `users`; item: int64 [n], index into `items`; category: int64 [n], global.
        rating: float32 [n].
        split: uint8 [n], index into `SPLITS`.
        trust: int64 [2, m], indices into `users`, directed.
        scale: lowest and highest rating there can be.
        n_categories: how many categories all clients have together.
        user_ids: [u] original ids, str or int; item_ids: [i] likewise.
    """

    name: str
    users: Ids
    items: Ids
    user: Ids
    item: Ids
    category: Ids
    rating: NDArray[np.float32]
    split: NDArray[np.uint8]
    trust: Ids
    scale: tuple[float, float]
    n_categories: int
    user_ids: Array
    item_ids: Array

    def hashes(self) -> Hashes:
        """Return a hash of the ids of each rating's user and item, uint64 [n]."""
        return joined(named(self.user_ids)[self.user], named(self.item_ids)[self.item])


def drop_repeats(ratings: Ratings) -> Ratings:
    """Return the data under the rules for duplicates and trust links, with a note for each that left anything out."""
    notes = list(ratings.notes)
    pair = ratings.user * ratings.items + ratings.item
    if ratings.client is not None:
        pair = pair * (int(ratings.client.max()) + 1) + ratings.client
    kept = last_of(pair)
    if dropped := len(pair) - len(kept):
        notes.append(f"{dropped:,} repeated ratings of one item by one user left out; the last row stands.")

    source, target = ratings.trust
    others = source != target
    if loops := int((~others).sum()):
        notes.append(f"{loops:,} trust links of users to themselves left out.")
    source, target = source[others], target[others]
    first = np.unique(source * ratings.users + target, return_index=True)[1]
    first.sort()
    if repeats := len(source) - len(first):
        notes.append(f"{repeats:,} repeated trust links left out.")
    return replace(
        ratings,
        user=ratings.user[kept],
        item=ratings.item[kept],
        category=ratings.category[kept],
        rating=ratings.rating[kept],
        client=None if ratings.client is None else ratings.client[kept],
        split=None if ratings.split is None else ratings.split[kept],
        time=None if ratings.time is None else ratings.time[kept],
        trust=np.stack([source[first], target[first]]),
        notes=tuple(notes),
    )


def category_bounds(categories: int, clients: int, partition: str) -> tuple[int, int]:
    """Fewest and most categories of a client.

    With m = categories / clients: "average" floor(m)..ceil(m); "skewed" 5/7 m..10/7 m; "extreme" 5/14 m..25/14 m;
    rounded, at least 1, and the most of skewed (extreme) at least one (two) above that of average. For 10 clients and
    the 28 or 27 categories of Ciao or Epinions these are the 2-3, 2-4 and 1-5 of FedACS; the fractions are these over
    2.8. For 5 clients they are 5-6, 4-8 and 2-10, for 20 clients 1-2, 1-3 and 1-4. As many clients as categories get
    one each.
    """
    mean = categories / clients
    low, high = categories // clients, -(-categories // clients)
    if partition == "average" or categories == clients:
        return low, high
    if partition == "skewed":
        return max(1, min(low, round(mean * 5 / 7))), max(high + 1, round(mean * 10 / 7))
    return max(1, min(low, round(mean * 5 / 14))), max(high + 2, round(mean * 25 / 14))


def partition_by_category(ratings: Ratings, clients: int, partition: str, g: np.random.Generator) -> list[Ids]:
    """Hand every category to exactly one client: ascending category ids, int64 [categories], for each client.

    The number of categories of each client is drawn within `category_bounds`, then the categories are dealt at random.
    """
    require(clients >= 1, "clients", ">= 1", clients)
    require_one_of("partition", partition, PARTITIONS)
    present = np.unique(ratings.category)
    if clients > len(present):
        raise InputError(
            f"clients must be at most {len(present)}, the number of categories, as each gets whole ones; got {clients}."
        )
    low, high = category_bounds(len(present), clients, partition)
    sizes = np.zeros(clients, np.int64)
    left = len(present)
    for client in range(clients):
        others = clients - client - 1
        sizes[client] = g.integers(max(low, left - high * others), min(high, left - low * others), endpoint=True)
        left -= sizes[client]
    dealt = np.split(g.permutation(present), np.cumsum(g.permutation(sizes))[:-1])
    return [np.sort(ids) for ids in dealt]


def split(
    n: int,
    g: np.random.Generator,
    shares: tuple[float, float, float] = SHARES,
    groups: Ids | None = None,
    time: NDArray[np.float64] | None = None,
) -> NDArray[np.uint8]:
    """uint8 [n]: to which of `SPLITS` each of a client's ratings, at least one, belongs.

    Validation and test get their shares, rounded; training gets the rest. Every group keeps at least one training
    rating, if need be at the cost of test, then of validation; so fewer than six ratings are all for training. The
    shares of train, validation, test have sum 1. Groups are int64 [n], such as categories; None is one group. By time,
    float64 [n], the latest are for test; None = any.
    """
    require(n >= 1, "split: the number of a client's ratings", "at least 1 (an empty client cannot train)", n)
    sound = len(shares) == len(SPLITS) and min(shares) >= 0 and abs(sum(shares) - 1) < 1e-9
    require(sound, "split: shares", "three numbers of at least 0 that sum to 1", shares)
    order = g.permutation(n) if time is None else np.argsort(time, kind="stable")
    first = np.unique(np.zeros(n) if groups is None else groups[order], return_index=True)[1]
    reserved = np.ones(n, np.bool_)
    reserved[first] = False
    order = order[np.argsort(reserved, kind="stable")]
    validation, test = (int(size) for size in held_out(np.int64(n), np.int64(len(first)), shares))
    parts = np.zeros(n, np.uint8)
    parts[order[n - validation - test : n - test]] = 1
    parts[order[n - test :]] = 2
    return parts


def held_out(n: Any, groups: Any, shares: tuple[float, float, float]) -> tuple[Any, Any]:
    """Sizes of validation and test of clients with `n` ratings in so many groups, int64 each."""
    validation = np.minimum(np.rint(shares[1] * n).astype(np.int64), n - groups)
    return validation, np.minimum(np.rint(shares[2] * n).astype(np.int64), n - groups - validation)


def merge_shards(shards: Sequence[RatingShard]) -> RatingShard:
    """All shards as one client's: the same ratings in the same splits, users and items that overlap made one."""
    users = np.unique(np.concatenate([shard.users for shard in shards]))
    items = np.unique(np.concatenate([shard.items for shard in shards]))
    user_ids: Array = np.empty(len(users), dtype=np.result_type(*(shard.user_ids for shard in shards)))
    item_ids: Array = np.empty(len(items), dtype=np.result_type(*(shard.item_ids for shard in shards)))
    links = []
    for shard in shards:
        user_ids[np.searchsorted(users, shard.users)] = shard.user_ids
        item_ids[np.searchsorted(items, shard.items)] = shard.item_ids
        links.append(np.searchsorted(users, shard.users[shard.trust]))
    return RatingShard(
        name="all clients",
        users=users,
        items=items,
        user=np.searchsorted(users, np.concatenate([shard.users[shard.user] for shard in shards])),
        item=np.searchsorted(items, np.concatenate([shard.items[shard.item] for shard in shards])),
        category=np.concatenate([shard.category for shard in shards]),
        rating=np.concatenate([shard.rating for shard in shards]),
        split=np.concatenate([shard.split for shard in shards]),
        trust=np.unique(np.concatenate(links, axis=1), axis=1),
        scale=shards[0].scale,
        n_categories=shards[0].n_categories,
        user_ids=user_ids,
        item_ids=item_ids,
    )


def label_shares(shard: RatingShard, rows: Ids, bins: int) -> tuple[float, ...]:
    """Return the shares of some of a client's ratings in so many equal parts of the scale."""
    edges = np.linspace(*shard.scale, bins + 1)
    return tuple((np.histogram(shard.rating[rows], edges)[0] / max(1, len(rows))).tolist())
