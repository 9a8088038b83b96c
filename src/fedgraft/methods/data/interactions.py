"""Your own interactions and items, from CSV or Parquet files or DataFrames."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd

from fedgraft.contracts.data import ANSWER, Purpose
from fedgraft.contracts.ranges import OneOf, PositiveInt
from fedgraft.domains.ranking import tables as reading
from fedgraft.domains.ranking.item_features import make_features, sources_of
from fedgraft.domains.ranking.shards import PARTITIONS, RankingShard, check_partition, make_shards, site_shard
from fedgraft.domains.ranking.shards import Interactions as Whole
from fedgraft.domains.tables.own_tables import OwnTables, SplitOptions
from fedgraft.domains.tables.schema import FORMS, Table
from fedgraft.errors import InputError, require
from fedgraft.tables.table_files import Given
from fedgraft.wire.layouts import Array


@dataclass(frozen=True)
class Interactions(SplitOptions[RankingShard], OwnTables[RankingShard]):
    """Own interactions: a table with columns for user and item, and perhaps one of items with what is known of them.

    Source: none. Differs: interactions are split by the hash of user and item, so that each keeps its split as the
        table grows; so the parts are not exactly 8:1:1, as those of published sets are.
    Ids and names are kept as text ("007" stays "007"). Every row is a positive; a pair counts once. A client is dealt
    whole users, or is named by the `client` column, or is one file of a folder (named after it); the last two need
    partition = "given", and who is at two clients is two users. One client's own table: `data`, with the columns of
    the run's interactions; the run's items must be there, and interactions with others are left out. At a site:
    `interactions` of its own, and `items`, one table that all sites have, unless the recipe names it.

    Args:
        interactions: path of a .csv or .parquet file, of a folder of such files, or a DataFrame; one row each.
        items: the same (no folder), one row per item, each once; None = nothing is known of items but who took them.
        user: column of `interactions`.
        item: column of both tables.
        client: column of `interactions`; read where the data name the clients.
        split: column with "train", "validation" or "test"; read where it is there, else 8:1:1 by `split_seed`.
        time: column to split by: the last tenth is test, the one before it validation, and of a pair the
            latest row stands; "" = none.
        title: column of `items` for people to read, if it is there.
        text: columns of `items` that make the text; None: the title and every column that is not of numbers.
        features: "all" makes "text" of an item's texts and "numbers" of its columns of numbers; "none"; or a table of
            modalities, such as {text = "text", price = ["price", "weight"], poster = "poster.npy"}: columns of
            numbers (scaled to mean 0, variance 1), a .npy file with a row per item of `items` (without that table:
            of the ids in ascending order), "sentence-transformers:NAME" or "timm:NAME" (extra `fedgraft[features]`).
        images: folder with an image per item, named by its id (12.jpg), for "timm:NAME".
        width: columns of features from "text", >= 1.
        clients: number of clients, 1..users; None takes 8, or what the data name with partition = "given".
        partition: "exponential", "linear" or "uniform", the shape of the clients' portions; "given" where the data
            name them; "auto" (default) is "given" where they do and `clients` is not said, else "uniform".
        ubi: interactions of the smallest client by those of the largest, in (0, 1]; for the first two shapes.
    """

    task: ClassVar[str] = "ranking"
    own_tables: ClassVar[tuple[str, ...]] = ("data",)
    site_tables: ClassVar[tuple[str, ...]] = ("interactions", "items")
    common_tables: ClassVar[tuple[str, ...]] = ("items",)
    schemas: ClassVar[tuple[Table, ...]] = (reading.INTERACTIONS, reading.ITEMS)
    asked: ClassVar[tuple[Table, ...]] = (reading.USERS,)

    interactions: str | Path | pd.DataFrame
    items: str | Path | pd.DataFrame | None = None
    user: str = "user"
    item: str = "item"
    client: str = "client"
    split: str = "split"
    time: str = ""
    title: str = "title"
    text: tuple[str, ...] | None = None
    features: str | dict[str, str | list[str]] = "all"
    images: str | Path | None = None
    width: int = 64
    clients: PositiveInt | None = None
    partition: Annotated[str, OneOf(("auto", *PARTITIONS, "given"))] = "auto"
    ubi: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_partition("Interactions", 1, PARTITIONS[0], self.ubi)
        for table in self.schemas:
            table.check("Interactions", self.names())
        sources = self._sources()
        if ".npy" in str(sources):
            object.__setattr__(self, "features", sources)  # paths, absolute, so that a run resumes anywhere

    @classmethod
    def options_from(cls, given: object) -> dict[str, Any] | None:
        """Take options with a table of interactions; a column of clients in memory says that the data name them."""
        if not isinstance(given, Mapping) or "interactions" not in given:
            return None
        table, client = given["interactions"], given.get("client", cls.client)
        named = isinstance(table, pd.DataFrame) and client in table and not {"partition", "clients"} & given.keys()
        return {**given, **({"partition": "given"} if named else {})}

    def load(self, seed: int) -> list[RankingShard]:
        """Load one shard per client, dealt and split by `seed`."""
        partition = self._partition()
        clients = 8 if self.clients is None and partition != "given" else self.clients
        return make_shards(self.read(), clients, partition, self.ubi, seed, self.split_seed_of(seed))

    def read(self) -> Whole:
        """Read the whole set, before it is dealt to clients."""
        named = self._partition() == "given"
        rows = reading.read_taken(self.names(), self.interactions, named)
        return reading.read_interactions(rows, self._catalogue(rows.read("item")[1]), named)

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> RankingShard:
        """Read one client's interactions, with the columns of the run's tables and the items that all know."""
        names = self.names()
        if not purpose.trains:
            taken = np.zeros(0, np.str_)
            if self.items is None:
                taken = reading.read_taken(names, self.interactions, self._partition() == "given").read("item")[1]
            return reading.read_own(names, tables["data"], self._catalogue(taken))
        here = replace(self, partition=PARTITIONS[0], **dict[str, Any](tables))
        if here.items is None:
            raise InputError("--data items=FILE is missing: a table of all items, the same file at every site.")
        return site_shard(here.read(), self.splitting(purpose))

    def _partition(self) -> str:
        return self.partition_of(PARTITIONS[-1], self.user, self.item)

    def _catalogue(self, taken: Array) -> reading.Catalogue:
        sources = None if self.features == "all" else self._sources()
        make = partial(make_features, "Interactions", images=self.images, width=self.width)
        names = {**reading.ITEMS.names(self), FORMS: self.forms}
        return reading.read_catalogue(self.items, names, taken, sources, self.text, make)

    def _sources(self) -> dict[str, Any]:
        """{modality: source, or columns}; {} for "all", which depends on the table."""
        if isinstance(self.features, str):
            features = "none" if self.features == "all" else self.features
            return dict(sources_of("Interactions", features, self.images, self.width))
        columns = {modality: of for modality, of in self.features.items() if not isinstance(of, str)}
        for modality, of in columns.items():
            require(len(of) > 0, f"Interactions.features[{modality!r}]", "a source, or at least one column", of)
        texts = {modality: of for modality, of in self.features.items() if isinstance(of, str)}
        made = sources_of("Interactions", texts, self.images, self.width)
        return {modality: made.get(modality, columns.get(modality)) for modality in self.features}
