"""Your own ratings, from CSV or Parquet files or DataFrames."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import pandas as pd

from fedgraft.contracts.data import GivenData, SiteData
from fedgraft.contracts.table_files import SUFFIXES, Given
from fedgraft.domains.ratings.own_shard import OwnRatings, own_ratings
from fedgraft.domains.ratings.shards import PARTITIONS, Ratings, RatingShard, make_shards, site_shard
from fedgraft.domains.ratings.site_tables import COMMON_TABLES, SITE_TABLES, read_site
from fedgraft.domains.ratings.tables import Format, read_ratings
from fedgraft.domains.tables import check_roles, frames_of
from fedgraft.errors import InputError, require, require_one_of


@dataclass(frozen=True)
class Table(OwnRatings, GivenData[RatingShard], SiteData[RatingShard]):
    """Own ratings: a table with columns for user, item, rating, and category or client; trust links if there are any.

    Source: none. Differs: nothing known.
    Ids and names are kept as text ("007" stays "007"). A client is dealt whole categories, or is named by the `client`
    column, or is one file of a folder (named after it); the last two need partition = "given". At a site: `ratings` and
    perhaps `trust` of its own; the recipe says `low` and `high`. Where users or items are numbered, `users` or `items`
    list the ids of all sites, in a column named as that of the ratings: the same file everywhere.

    Args:
        ratings: path of a .csv or .parquet file, of a folder of such files, or a DataFrame; one row per rating.
        trust: the same (no folder) for trust links, one row per link; None = no links.
        user: column of `ratings`.
        item: likewise.
        rating: likewise, numbers.
        category: column; needed unless partition = "given", where a missing "category" column means one for all.
        client: column; read only with partition = "given".
        trust_user: column of `trust`, who trusts.
        trust_target: likewise, whom.
        unknown_trust: what to do about a link with an end that has no rating: "error", or "drop" with a note.
        low: lowest rating there can be; None takes the lowest in the data, with a note.
        high: highest; likewise. A rating outside is an error.
        clients: number of clients, 1..categories; None takes 10, or what the data name with partition = "given".
        partition: "average", "skewed" or "extreme", how unequally categories are dealt; or "given".
    """

    task: ClassVar[str] = "rating"
    site_tables: ClassVar[tuple[str, ...]] = SITE_TABLES
    common_tables: ClassVar[tuple[str, ...]] = COMMON_TABLES

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

    @classmethod
    def options_from(cls, given: object) -> dict[str, Any] | None:
        """Take a table of ratings, or options with one; a column of clients in memory says that the data name them."""
        if isinstance(given, pd.DataFrame | Path) or (isinstance(given, str) and given.lower().endswith(SUFFIXES)):
            given = {"ratings": given}
        if not isinstance(given, Mapping) or "ratings" not in given:
            return None
        ratings, client = given["ratings"], given.get("client", cls.client)
        named = isinstance(ratings, pd.DataFrame) and client in ratings and not {"partition", "clients"} & given.keys()
        return {**given, **({"partition": "given"} if named else {})}

    def load(self, seed: int) -> list[RatingShard]:
        """Load one shard per client, partitioned and split by `seed`."""
        clients = 10 if self.clients is None and self.partition != "given" else self.clients
        return make_shards(self.read(), clients, self.partition, seed)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return DataFrames, with the columns that are named."""
        return frames_of(self)

    def read(self) -> Ratings:
        """Read the whole table, before it is partitioned."""
        given = self.partition == "given"
        if not given and not isinstance(self.ratings, pd.DataFrame) and Path(self.ratings).is_dir():
            raise InputError(
                f"Table.ratings = {str(self.ratings)!r} is a folder, where each file is a client: "
                f"Table.partition must be 'given'; got {self.partition!r}."
            )
        return read_ratings(self._form("Table"), self.ratings, self.trust, given)

    def own_shard(self, task: Any, tables: Mapping[str, Given]) -> RatingShard:
        """Read one client's ratings, with the columns and the scale of the run's table."""
        return own_ratings(replace(self._form("data"), unknown_trust="drop"), tables)

    def site_shard(self, task: Any, tables: Mapping[str, Given], client: int, name: str, seed: int) -> RatingShard:
        """Read one client's ratings and the trust links between its users; columns of clients are not read."""
        form = replace(self._form("Table"), unknown_trust="drop")
        return site_shard(read_site(form, tables, task), name, seed, client)

    def _form(self, owner: str) -> Format:
        return Format(owner, **{option.name: getattr(self, option.name) for option in fields(Format)[1:]})
