"""Reads the published Ciao and Epinions files: rating.mat, trustnetwork.mat and, where it is there, category.txt.

Published subset (the rule that gives the figures papers print): drop self links of the trust network; users are those
left in it; keep the ratings of those users, repeats included. Afterwards ratings outside 1..5 go (Ciao has a few of 0)
and the duplicate rules of `fedgraft.domains.ratings.shards` apply.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import scipy.io

from fedgraft.contracts.ranges import OneOf, PositiveInt
from fedgraft.domains.ratings.dealing import make_shards
from fedgraft.domains.ratings.shards import PARTITIONS, Ids, Ratings, RatingShard, drop_repeats
from fedgraft.domains.ratings.tables import OwnRatings
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array

ADDRESS = "https://www.cse.msu.edu/~tangjili/datasetcode/truststudy.htm"
"""Where the collector of both sets publishes them."""

SCALE = (1.0, 5.0)
"""Both sites let users give one to five stars."""


@dataclass(frozen=True, eq=False)
class MatTables:
    """The columns as the files hold them: 1-based ids, repeats and all.

    Args:
        user: int64 [n]; item: int64 [n]; category: int64 [n]; rating: int64 [n].
        trust: int64 [m, 2], who trusts whom.
        category_names: {category id: name}; empty without category.txt.
    """

    user: Ids
    item: Ids
    category: Ids
    rating: Ids
    trust: Ids
    category_names: dict[int, str]


def read_mat(root: str | Path, owner: str) -> MatTables:
    """The raw files in the folder `root`; `owner` ("Ciao") names the data set in errors."""
    folder = Path(root)
    table = _matrix(folder / "rating.mat", "rating", 4, owner)
    trust = _matrix(folder / "trustnetwork.mat", "trustnetwork", 2, owner)
    return MatTables(table[:, 0], table[:, 1], table[:, 2], table[:, 3], trust[:, :2], _category_names(folder))


def published_subset(tables: MatTables) -> MatTables:
    """The rows that published figures count, repeats included."""
    trust = tables.trust[tables.trust[:, 0] != tables.trust[:, 1]]
    kept = np.isin(tables.user, np.unique(trust))
    return MatTables(
        tables.user[kept], tables.item[kept], tables.category[kept], tables.rating[kept], trust, tables.category_names
    )


def to_ratings(tables: MatTables) -> Ratings:
    """Dense ids, ratings within the scale, one rating per pair; notes say what went."""
    user_ids = np.unique(tables.trust)
    item_ids, item = np.unique(tables.item, return_inverse=True)
    category_ids, category = np.unique(tables.category, return_inverse=True)
    within = (tables.rating >= SCALE[0]) & (tables.rating <= SCALE[1])
    dropped = int((~within).sum())
    notes = (f"{dropped:,} ratings outside {SCALE[0]:g}..{SCALE[1]:g} left out.",) if dropped else ()
    names = tuple(tables.category_names.get(int(c), f"category {c}") for c in category_ids)
    return drop_repeats(
        Ratings(
            user=np.searchsorted(user_ids, tables.user)[within],
            item=item[within],
            category=category[within],
            rating=tables.rating[within].astype(np.float32),
            trust=np.searchsorted(user_ids, tables.trust.T),
            users=len(user_ids),
            items=len(item_ids),
            categories=len(category_ids),
            scale=SCALE,
            user_ids=user_ids,
            item_ids=item_ids,
            category_names=names,
            notes=notes,
        )
    )


def _matrix(path: Path, key: str, columns: int, owner: str) -> Ids:
    if not path.is_file():
        raise InputError(
            f"{owner}: no file {path}. {owner}.root (data.root in a recipe) must be the folder that holds rating.mat "
            f"and trustnetwork.mat; get them at {ADDRESS}."
        )
    try:
        content: dict[str, Array] = scipy.io.loadmat(str(path))
    except Exception as error:  # SciPy raises another type for nearly every way a file can be broken
        raise InputError(f"{owner}: {path} is not a readable MATLAB file ({error}); get it at {ADDRESS}.") from error
    if key not in content:
        names = ", ".join(name for name in content if not name.startswith("__")) or "nothing"
        raise InputError(f"{owner}: {path} must hold a matrix {key!r}; it holds {names}.")
    matrix = content[key]
    sound = matrix.ndim == 2 and matrix.shape[1] >= columns and len(matrix) > 0 and matrix.dtype.kind in "iuf"
    if not sound:
        raise InputError(
            f"{owner}: matrix {key!r} of {path} must be numbers of shape [rows, {columns} or more]; "
            f"got {matrix.dtype} {list(matrix.shape)}."
        )
    return matrix.astype(np.int64)


def _category_names(folder: Path) -> dict[int, str]:
    path = folder / "category.txt"
    if not path.is_file():
        return {}
    names = {}
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        if line.strip():
            identifier, _, name = line.strip().partition(" ")
            if not identifier.isdigit():
                raise InputError(f"{path}, line {number} must start with a category's number; got {line!r}.")
            names[int(identifier)] = name.strip()
    return names


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
    clients: PositiveInt = 10
    partition: Annotated[str, OneOf(PARTITIONS)] = "average"

    def ratings(self) -> Ratings:
        """Read the whole set, before it is partitioned."""
        return to_ratings(published_subset(read_mat(self.root, type(self).__name__)))

    def load(self, seed: int) -> list[RatingShard]:
        """Load one shard per client, partitioned and split by `seed`."""
        return make_shards(self.ratings(), self.clients, self.partition, seed)
