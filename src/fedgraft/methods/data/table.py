"""Your own ratings, from CSV or Parquet files or DataFrames."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd

from fedgraft.contracts.abilities.matching import MatchedData
from fedgraft.contracts.data import ANSWER, Purpose
from fedgraft.contracts.ranges import OneOf, PositiveInt
from fedgraft.domains.ratings import tables as reading
from fedgraft.domains.ratings.dealing import bytes_of, make_shards, names_of, numbered_alike
from fedgraft.domains.ratings.shards import PARTITIONS, Ratings, RatingShard
from fedgraft.domains.tables import schema
from fedgraft.domains.tables.own_tables import OwnTables, SplitOptions
from fedgraft.errors import InputError, require
from fedgraft.tables.table_files import Given, is_folder, is_table
from fedgraft.wire.layouts import Arrays

USUAL = 10
"""Clients, where neither the data nor the user says how many."""


@dataclass(frozen=True)
class Table(SplitOptions[RatingShard], reading.OwnRatings, OwnTables[RatingShard], MatchedData[RatingShard]):
    """Own ratings: a table with columns for user, item, rating, and category or client; trust links if there are any.

    Source: none. Differs: ratings are split by the hash of user and item, so that each keeps its split as the table
        grows; a category may be without a training rating at a client, as it may not be in published sets.
    Ids and names are kept as text ("007" stays "007"). A client is named by the column `client`, or is one file of a
    folder (named after it), or is dealt whole categories; without a column of these, whole items. At a site: `ratings`
    and perhaps `trust` of its own; the recipe says `low` and `high`. Where users or items are numbered, `users` or
    `items` list the ids of all sites, in a column named as that of the ratings: the same file everywhere. With `match`
    no site has a list of all users.

    Args:
        ratings: path of a .csv or .parquet file, of a folder of such files, or a DataFrame; one row per rating.
        trust: the same (no folder) for trust links, one row per link; None = no links.
        user: column of `ratings`.
        item: likewise.
        rating: likewise, numbers.
        category: column; where it is missing there is one for all.
        client: column of who holds a rating.
        split: column, "train", "validation" or "test"; where it is missing, 8:1:1 by `split_seed`.
        time: column, numbers or dates: of each client's ratings the latest tenth is for test, the tenth before it for
            validation; of an item that a user rated twice the latest stands. "" (default) = no such split.
        trust_user: column of `trust`, who trusts.
        trust_target: likewise, whom.
        unknown_trust: what to do about a link with an end that has no rating: "error", or "drop" with a note.
        low: lowest rating there can be; None takes the lowest in the data, with a note.
        high: highest; likewise. A rating outside is an error.
        clients: number of clients, 1..categories; None takes what the data name, else 10 or as many as there are
            categories.
        partition: "average", "skewed" or "extreme", how unequally categories are dealt; or "given", clients as the data
            name them; "auto" (default) is "given" where they do and `clients` is not said, else "average".
        match: how sites find out which users others have, too, whom the server learns in neither way: "hashes", keyed
            by a secret of all sites, by which who has it and the hashes can try ids; or "psi", private set
            intersection, in which nobody can try ids by himself, for more bytes. "" (default) = by a file of all users
            that all have. For data that name the clients.
    """

    task: ClassVar[str] = "rating"
    site_tables: ClassVar[tuple[str, ...]] = reading.SITE_TABLES
    common_tables: ClassVar[tuple[str, ...]] = reading.COMMON_TABLES
    schemas: ClassVar[tuple[schema.Table, ...]] = (reading.RATINGS, reading.TRUST)
    asked: ClassVar[tuple[schema.Table, ...]] = (reading.PAIRS,)

    ratings: str | Path | pd.DataFrame
    trust: str | Path | pd.DataFrame | None = None
    user: str = "user"
    item: str = "item"
    rating: str = "rating"
    category: str = "category"
    client: str = "client"
    split: str = "split"
    time: str = ""
    trust_user: str = "user"
    trust_target: str = "trusts"
    unknown_trust: Literal["error", "drop"] = "error"
    low: float | None = None
    high: float | None = None
    clients: PositiveInt | None = None
    partition: Annotated[str, OneOf(("auto", *PARTITIONS, "given"))] = "auto"
    match: Literal["", "hashes", "psi"] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        reading.RATINGS.check("Table", self.names(), only=("user", "item", "rating", "time"))
        reading.TRUST.check("Table", self.names())
        ordered = self.low is None or self.high is None or self.low < self.high
        require(ordered, "Table.low", f"below Table.high = {self.high}", self.low)

    @classmethod
    def options_from(cls, given: object) -> dict[str, Any] | None:
        """Take a table of ratings, or options with one."""
        if isinstance(given, pd.DataFrame | Path) or is_table(given):
            given = {"ratings": given}
        return dict(given) if isinstance(given, Mapping) and "ratings" in given else None

    def load(self, seed: int) -> list[RatingShard]:
        """Load one shard per client, partitioned and split by `seed`."""
        ratings, partition = self.read(), self._partition()
        most = ratings.items if ratings.categories == 1 else ratings.categories
        clients = min(USUAL, most) if self.clients is None and partition != "given" else self.clients
        shards = make_shards(ratings, clients, partition, seed, self.split_seed_of(seed))
        return numbered_alike(shards) if self.matches else shards

    @property
    def matches(self) -> bool:
        """Whether ids of users are matched."""
        return bool(self.match)

    @property
    def is_private(self) -> bool:
        """Whether by private set intersection."""
        return self.match == "psi"

    @property
    def is_numbered(self) -> bool:
        """True: users are numbered."""
        return True

    @property
    def matching(self) -> Mapping[int, tuple[int, int]]:
        """What that takes, {client: (bytes down, bytes up)}."""
        return bytes_of(self.read(), self.is_private)

    def claims_at(self, task: Any, tables: Mapping[str, Given], purpose: Purpose, secret: bytes) -> Arrays:
        """Return what a site tells of its users."""
        form = reading.Format("Table", self.names(), self.low, self.high, self.unknown_trust)
        return names_of(np.asarray(reading.site_ratings(form, tables).user_ids), secret)

    def read(self) -> Ratings:
        """Read the whole table, before it is partitioned."""
        named = self._partition() == "given"
        if self.matches and not named:
            raise InputError("Table.match needs ratings that name their clients: a column Table.client, or a folder.")
        if not named and is_folder(self.ratings):
            raise InputError(
                f"Table.ratings = {str(self.ratings)!r} is a folder, where each file is a client: "
                f"Table.partition must be 'given'; got {self.partition!r}."
            )
        form = reading.Format("Table", self.names(), self.low, self.high, self.unknown_trust)
        return reading.read_all(form, self.ratings, self.trust, named)

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> RatingShard:
        """Read one client's ratings, with the columns and the scale of the run's table; clients are not read."""
        scale = (self.low, self.high) if purpose.trains else self._scale()
        owner = "Table" if purpose.trains else "data"
        form = reading.Format(owner, self.names(), *scale, is_matched=self.matches)
        return reading.client_ratings(form, tables, self.splitting(purpose), task)

    def _partition(self) -> str:
        return self.partition_of("average", self.user, self.item, self.rating)

    def _scale(self) -> tuple[float, float]:
        """Return the lowest and the highest rating, read off the run's table where they were not said."""
        if self.low is not None and self.high is not None:
            return self.low, self.high
        try:
            return self.read().scale
        except InputError as error:
            raise InputError(
                f"{error} The scale of the run's ratings is read off them; a run that is told data.low and data.high "
                "needs them no more."
            ) from error
