"""Questions about (user, item) pairs in the ids of the data: who answers them, and what is new to whoever does."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from fedgraft.domains.ratings.shards import Ids, RatingShard
from fedgraft.domains.tables.rows import places_of
from fedgraft.errors import InputError, unknown
from fedgraft.wire.layouts import Array


def route_pairs(shards: Sequence[RatingShard], queries: Mapping[str, Array]) -> Ids:
    """The client of each pair, int64 [pairs]: by its column "client", else by item, by user, by size (see `Rating`)."""
    for column in ("user", "item"):
        if column not in queries:
            raise InputError(f"pairs need a column {column!r}; got {', '.join(queries) or 'none'}.")
    for column in {"user", "item", "client"} & queries.keys():
        missing = np.flatnonzero(pd.isna(queries[column]))
        if len(missing):
            raise InputError(f"pairs, row {missing[0] + 1}: {column!r} is empty ({len(missing)} such rows).")
    if "client" in queries:
        return np.array([_client(shards, value) for value in queries["client"]], dtype=np.int64)
    ratings = np.array([len(shard.rating) for shard in shards], dtype=np.float64)
    # In units of one rating: selling the item outweighs any number of ratings, which outweighs size.
    preference = np.tile(ratings / (ratings.sum() + 1.0), (len(queries["user"]), 1))
    for client, shard in enumerate(shards):
        counts = np.bincount(shard.user, minlength=len(shard.users))
        user = positions(shard.user_ids, queries["user"])
        preference[:, client] += np.where(user >= 0, counts[user], 0)
        preference[:, client] += (ratings.sum() + 1.0) * (positions(shard.item_ids, queries["item"]) >= 0)
    return np.asarray(preference.argmax(axis=1))


def with_newcomers(shard: RatingShard, user_ids: Array, item_ids: Array) -> tuple[RatingShard, Ids, Ids]:
    """The shard with users and items that it has not seen added, and the pairs' local indices in it, int64 [pairs]."""
    own_users, users, user = _extended(shard.user_ids, shard.users, user_ids)
    own_items, items, item = _extended(shard.item_ids, shard.items, item_ids)
    return replace(shard, user_ids=own_users, users=users, item_ids=own_items, items=items), user, item


def item_categories(shard: RatingShard) -> Ids:
    """int64 [items], the category of each: that of its last rating; the client's most frequent one without any."""
    most = int(np.bincount(shard.category).argmax())
    categories = np.full(len(shard.items), most, dtype=np.int64)
    categories[shard.item] = shard.category
    return categories


def positions(ids: Array, wanted: Array) -> Ids:
    """Return where each wanted id stands among `ids`, int64 [wanted], -1 for none; compared as text, as in files."""
    return places_of(_texts(ids), _texts(wanted))


def _extended(ids: Array, numbers: Ids, wanted: Array) -> tuple[Array, Ids, Ids]:
    """(ids with the wanted ones that are new, the numbers of all of them, the places of the wanted ones)."""
    new = np.unique(_texts(wanted)[positions(ids, wanted) < 0])
    together = np.concatenate([_texts(ids), new])
    more = int(numbers.max(initial=-1)) + 1 + np.arange(len(new))
    return together, np.concatenate([numbers, more]), positions(together, wanted)


def _texts(ids: Array) -> Array:
    # Whole numbers become floats where a table lacks some of them: 7.0 is user 7, as in the data (`Cells.codes`).
    values = (int(v) if isinstance(v, float) and v.is_integer() else v for v in ids.tolist())
    return np.array([str(value) for value in values], dtype=object)


def _client(shards: Sequence[RatingShard], value: object) -> int:
    names = [shard.name for shard in shards]
    if str(value) in names:
        return names.index(str(value))
    if str(value).isdigit() and int(str(value)) < len(shards):
        return int(str(value))
    raise unknown("client", value, [*names, f"0..{len(shards) - 1}"])
