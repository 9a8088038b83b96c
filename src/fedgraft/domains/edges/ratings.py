"""Reads tables of who trusts whom, and how much, as a directed graph in the order of time; nothing is downloaded."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.edge_rows import both_ways
from fedgraft.domains.edges.stages import order_of
from fedgraft.domains.nodes.base.shards import WholeGraph
from fedgraft.domains.notes import LOG, tell
from fedgraft.domains.tables.reader import read
from fedgraft.domains.tables.rows import arranged
from fedgraft.domains.tables.schema import Column, Table
from fedgraft.errors import InputError

ADDRESS = "https://snap.stanford.edu/data/soc-sign-bitcoin-{}.html"
SETS = ("otc", "alpha")
MOST = 10
"""Of a rating, which is -10 .. 10 without 0."""
RATINGS = Table(
    "ratings",
    (
        Column("source", usual="from", option="who rates"),
        Column("target", usual="to", option="who is rated"),
        Column("rating", "number", usual="feature", option="how much"),
        Column("time", "number", option="when"),
    ),
)
"""One row per rating."""


@dataclass(frozen=True, eq=False)
class RatedGraph:
    """Who rated whom.

    Args:
        graph: all users, their one feature 1; each rating an edge that carries rating / 10, and 1 where it is below 0.
        ends: int64 [2, ratings], who rates and who is rated.
        rating: float64 [ratings].
    """

    graph: WholeGraph
    ends: Indices
    rating: NDArray[np.float64]


def read_ratings(root: Path, name: str) -> RatedGraph:
    """Return the graph of all users, in the order of their ids; root holds soc-sign-bitcoinNAME.csv.

    Ratings of oneself are left out, with a note.
    """
    path = Path(root) / f"soc-sign-bitcoin{name}.csv"
    if not path.is_file():
        raise InputError(
            f"Bitcoin: no file {path}; download it from {ADDRESS.format(name)}, unpack it, and give it a first line "
            "from,to,feature,time. Bitcoin.root is its folder."
        )
    rows = read(path, RATINGS, RATINGS.names(), "Bitcoin")
    tell(rows.found)
    sides = [rows[role].texts() for role in ("source", "target")]
    ids, code = np.unique(np.concatenate(sides), return_inverse=True)
    order, place = arranged(np.arange(len(ids)), ids)
    ends = place[code.reshape(2, -1)]
    rating, time = rows["rating"].numbers(), rows["time"].numbers()
    if (wrong := (np.abs(rating) > MOST) | (rating == 0)).any():
        raise rows["rating"].error(wrong, f"in -{MOST}..{MOST}, not 0")
    loops = ends[0] == ends[1]
    if count := int(loops.sum()):
        LOG.warning(f"{path.name}: {count:,} ratings of oneself left out.")
    ends, rating, time = ends[:, ~loops], rating[~loops], time[~loops]
    carried = np.stack([rating / MOST, rating < 0], axis=1).astype(np.float32)
    pointers, senders, stored = both_ways(ends, carried, len(ids), directed=True, order=order_of(time))
    graph = WholeGraph(
        name=name,
        ids=ids[order].astype(object),
        features=np.ones((len(ids), 1), np.float32),
        label=np.full(len(ids), -1),
        classes=(),
        split=np.full(len(ids), -1, np.int8),
        pointers=pointers,
        senders=senders,
        edge_rows=stored,
        scale_rows=False,
    )
    return RatedGraph(graph, ends, rating)
