"""Data sets of a review site in the files of Tang et al.: one class for all, which each names and describes."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fedgraft.domains.ratings.dealing import make_shards
from fedgraft.domains.ratings.mat_files import published_subset, read_mat, to_ratings
from fedgraft.domains.ratings.shards import Ratings, RatingShard, check_partition
from fedgraft.domains.ratings.tables import OwnRatings


@dataclass(frozen=True)
class ReviewSite(OwnRatings):
    """Product ratings (1..5) and trust links of a review site; a client is a shop with whole categories.

    Args:
        root: folder that holds rating.mat and trustnetwork.mat, and category.txt for the categories' names.
        clients: number of clients, 1..categories; FedACS uses 5, 10 and 20.
        partition: "average", "skewed" or "extreme", how unequally categories are dealt.
    """

    task: ClassVar[str] = "rating"

    root: str | Path
    clients: int = 10
    partition: str = "average"

    def __post_init__(self) -> None:
        check_partition(type(self).__name__, self.clients, self.partition)

    def ratings(self) -> Ratings:
        """Read the whole set, before it is partitioned."""
        return to_ratings(published_subset(read_mat(self.root, type(self).__name__)))

    def load(self, seed: int) -> list[RatingShard]:
        """Load one shard per client, partitioned and split by `seed`."""
        return make_shards(self.ratings(), self.clients, self.partition, seed)
