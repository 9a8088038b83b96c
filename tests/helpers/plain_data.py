"""A data set of somebody else: it hands over shards and has no ability."""

from dataclasses import dataclass
from typing import ClassVar

from fedgraft.contracts.data import Data
from fedgraft.domains.ratings.shards import RatingShard
from fedgraft.methods.data.shops import Shops


@dataclass(frozen=True)
class PlainShops(Data[RatingShard]):
    """Made-up shops.

    Source: none. Differs: nothing known.

    Args:
        users, items, categories, links, count, clients: as of `Shops`.
    """

    task: ClassVar[str] = "rating"

    users: int = 60
    items: int = 80
    categories: int = 4
    links: int = 200
    count: int = 600
    clients: int = 3

    def load(self, seed: int) -> list[RatingShard]:
        return Shops(**vars(self)).load(seed)
