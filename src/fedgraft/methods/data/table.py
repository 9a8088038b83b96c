"""Your own ratings, from CSV or Parquet files or DataFrames."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from fedgraft.contracts.providers import Data
from fedgraft.domains.ratings.shards import PARTITIONS, Ids, Ratings, RatingShard, make_shards
from fedgraft.domains.tables import (
    Source,
    check_roles,
    encode,
    folder_of_tables,
    frames_of,
    numbers,
    read_table,
    row_of,
)
from fedgraft.errors import InputError, require, require_one_of
from fedgraft.wire.layouts import Array


@dataclass(frozen=True)
class Table(Data[RatingShard]):
    """Own ratings: a table with columns for user, item, rating, and category or client; trust links if there are any.

    Source: none. Differs: nothing known.
    Ids and names are kept as text ("007" stays "007"). A client is dealt whole categories, or is named by the `client`
    column, or is one file of a folder (named after it); the last two need partition = "given".

    Args:
        ratings: path of a .csv or .parquet file, of a folder of such files, or a DataFrame; one row per rating.
        trust: the same (no folder) for trust links, one row per link; None = no links.
        user: column of `ratings`; item: likewise; rating: likewise, numbers.
        category: column; needed unless partition = "given", where a missing "category" column means one for all.
        client: column; read only with partition = "given".
        trust_user: column of `trust`, who trusts; trust_target: column, whom.
        unknown_trust: what to do about a link with an end that has no rating: "error", or "drop" with a note.
        low: lowest rating there can be; None takes the lowest in the data, with a note.
        high: highest; likewise. A rating outside is an error.
        clients: number of clients, 1..categories; None takes 10, or what the data name with partition = "given".
        partition: "average", "skewed" or "extreme", how unequally categories are dealt; or "given".
    """

    task: ClassVar[str] = "rating"

    ratings: str | Path | pd.DataFrame
    trust: str | Path | pd.DataFrame | None = None
    user: str = "user"
    item: str = "item"
    rating: str = "rating"
    category: str = "category"
    client: str = "client"
    trust_user: str = "user"
    trust_target: str = "trusts"
    unknown_trust: Literal["error", "drop"] = "error"
    low: float | None = None
    high: float | None = None
    clients: int | None = None
    partition: str = "average"

    def __post_init__(self) -> None:
        require_one_of("Table.partition", self.partition, (*PARTITIONS, "given"))
        require_one_of("Table.unknown_trust", self.unknown_trust, ("error", "drop"))
        require(self.clients is None or self.clients >= 1, "Table.clients", "at least 1, or left out", self.clients)
        check_roles("Table", [(option, getattr(self, option)) for option in ("user", "item", "rating")])
        check_roles("Table", [(option, getattr(self, option)) for option in ("trust_user", "trust_target")])
        ordered = self.low is None or self.high is None or self.low < self.high
        require(ordered, "Table.low", f"below Table.high = {self.high}", self.low)

    def load(self, seed: int) -> list[RatingShard]:
        """One shard per client, partitioned and split by `seed`."""
        clients = 10 if self.clients is None and self.partition != "given" else self.clients
        return make_shards(self.read(), clients, self.partition, seed)

    def tables(self) -> dict[str, pd.DataFrame]:
        """DataFrames, with the columns that are named."""
        return frames_of(self)

    def read(self) -> Ratings:
        """The whole table, before it is partitioned."""
        given = self.partition == "given"
        table, source, client = self._tables(given)
        user, user_ids = encode(table, self.user, source)
        item, item_ids = encode(table, self.item, source)
        category, category_names = np.zeros(len(table), np.int64), np.array(["all"])
        if not given or self.category in table or self.category != "category":
            category, category_names = encode(table, self.category, source)
        if given and client is None:
            client = encode(table, self.client, source)
        rating = numbers(table, self.rating, source)
        scale, notes = self._scale(rating, source)
        trust, dropped = self._trust(user_ids)
        return Ratings(
            user=user,
            item=item,
            category=category,
            rating=rating.astype(np.float32),
            trust=trust,
            users=len(user_ids),
            items=len(item_ids),
            categories=len(category_names),
            scale=scale,
            client=client[0] if client else None,
            user_ids=user_ids,
            item_ids=item_ids,
            category_names=tuple(category_names.tolist()),
            client_names=tuple(client[1].tolist()) if client else (),
            notes=(*notes, *dropped),
        )

    def _tables(self, given: bool) -> tuple[pd.DataFrame, Source, tuple[Ids, Array] | None]:
        """The rows, where they come from, and the client of each row if files are clients."""
        wanted = {"Table.user": self.user, "Table.item": self.item, "Table.rating": self.rating}
        optional = [self.category] if given and self.category == "category" else []
        if not optional:
            wanted["Table.category"] = self.category
        if isinstance(self.ratings, pd.DataFrame) or not Path(self.ratings).is_dir():
            if given:
                wanted["Table.client"] = self.client
            table, source = read_table(self.ratings, "Table.ratings", wanted, optional)
            return table, source, None
        if not given:
            raise InputError(
                f"Table.ratings = {str(self.ratings)!r} is a folder, where each file is a client: "
                f"Table.partition must be 'given'; got {self.partition!r}."
            )
        tables, source = folder_of_tables(Path(self.ratings), "Table.ratings", wanted, optional)
        codes = np.repeat(np.arange(len(tables)), [len(table) for table in tables.values()])
        return pd.concat(list(tables.values()), ignore_index=True), source, (codes, np.array(list(tables)))

    def _scale(self, rating: Array, source: Source) -> tuple[tuple[float, float], list[str]]:
        low = float(rating.min()) if self.low is None else self.low
        high = float(rating.max()) if self.high is None else self.high
        outside = np.flatnonzero((rating < low) | (rating > high))
        if len(outside):
            raise InputError(
                f"{row_of(source, outside[0])}: {self.rating!r} must be within {low:g}..{high:g} "
                f"(Table.low..Table.high); got {rating[outside[0]]:g} ({len(outside)} such rows)."
            )
        if low >= high:
            raise InputError(
                f"{source[0][0]}: every rating is {low:g}; "
                "set Table.low and Table.high to the lowest and highest possible."
            )
        missing = [name for name, bound in (("Table.low", self.low), ("Table.high", self.high)) if bound is None]
        note = f"Scale {low:g}..{high:g} is what the ratings span; set {' and '.join(missing)} if more is possible."
        return (low, high), [note] if missing else []

    def _trust(self, user_ids: Array) -> tuple[Ids, list[str]]:
        if self.trust is None:
            return np.zeros((2, 0), np.int64), []
        wanted = {"Table.trust_user": self.trust_user, "Table.trust_target": self.trust_target}
        table, source = read_table(self.trust, "Table.trust", wanted, [], may_be_empty=True)
        ends = []
        for column in (self.trust_user, self.trust_target):
            codes, names = encode(table, column, source)
            place = np.minimum(np.searchsorted(user_ids, names), len(user_ids) - 1)
            known = np.where(user_ids[place] == names, place, -1)
            ends.append(known[codes] if len(codes) else codes)
        links = np.stack(ends)
        unknown = (links < 0).any(axis=0)
        if not unknown.any():
            return links, []
        if self.unknown_trust == "error":
            row = int(np.flatnonzero(unknown)[0])
            column = self.trust_user if links[0, row] < 0 else self.trust_target
            raise InputError(
                f"{row_of(source, row)}: {column!r} must be a user with a rating; got {str(table[column].iloc[row])!r} "
                f"({int(unknown.sum())} such rows). Table.unknown_trust = 'drop' leaves them out."
            )
        return links[:, ~unknown], [f"{int(unknown.sum()):,} trust links with an end that has no rating left out."]
