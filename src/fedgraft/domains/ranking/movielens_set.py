"""Options that the MovieLens data sets share, and shards made from their files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fedgraft.contracts.data import ANSWER, OwnShardData, Purpose
from fedgraft.contracts.table_files import Given
from fedgraft.domains.ranking.item_features import Items, make_features, sources_of
from fedgraft.domains.ranking.movielens import ADDRESS, Format, Movies, read_movielens
from fedgraft.domains.ranking.partition import check_partition, make_shards
from fedgraft.domains.ranking.shards import Interactions, RankingShard
from fedgraft.domains.ranking.tables import INTERACTIONS, Catalogue, read_own


@dataclass(frozen=True)
class MovieLensSet(OwnShardData[RankingShard]):
    """Ability of MovieLens sets: read files of one format; options as of `methods/data/ml100k.py`.

    One client's own table, `data`, has columns "user" and "item", the set's numbers of movies; the set's files must be
    there, as they tell what is known of movies.
    """

    task: ClassVar[str] = "ranking"
    own_tables: ClassVar[tuple[str, ...]] = ("data",)
    form: ClassVar[Format]
    """Format of the files."""
    page: ClassVar[str]
    """Page of the set at GroupLens, such as "100k/"."""

    root: str | Path
    clients: int = 8
    partition: str = "exponential"
    ubi: float = 0.1172
    features: str | dict[str, str] = "text"
    images: str | Path | None = None
    width: int = 64

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_partition(owner, self.clients, self.partition, self.ubi)
        sources = sources_of(owner, self.features, self.images, self.width)
        if ".npy" in "".join(sources.values()):
            object.__setattr__(self, "features", sources)  # paths, absolute, so that a run resumes anywhere

    def movies(self) -> Movies:
        """Read the whole set, without features."""
        return read_movielens(self.root, self.form, type(self).__name__, ADDRESS + self.page)

    def interactions(self) -> Interactions:
        """Return the whole set, before it is dealt to clients."""
        movies, owner = self.movies(), type(self).__name__
        items = Items(movies.item_ids, movies.texts, movies.place, movies.listed, self.form.movies)
        sources = sources_of(owner, self.features, self.images, self.width)
        return Interactions(
            user=movies.user,
            item=movies.item,
            user_ids=movies.user_ids,
            item_ids=movies.item_ids,
            features=make_features(owner, sources, items, self.images, self.width),
            titles=movies.titles,
        )

    def load(self, seed: int) -> list[RankingShard]:
        """Load one shard per client, dealt and split by `seed`."""
        return make_shards(self.interactions(), self.clients, self.partition, self.ubi, seed)

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> RankingShard:
        """Read one client's interactions with movies of the set; those with others are left out, with a note."""
        whole = self.interactions()
        known = Catalogue(whole.item_ids, whole.titles, whole.features, self.form.movies)
        return read_own(INTERACTIONS.names(), tables["data"], known, "movies")
