"""Members of Bitcoin OTC or Alpha and their ratings of each other, dealt to clients: whom will a member distrust?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import OneOf, PositiveInt
from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.edge_rows import both_ways
from fedgraft.domains.edges.order_of_time import order_of
from fedgraft.domains.edges.shards import EdgeShard, deal_edges
from fedgraft.domains.nodes.base.partitions import DealtNodes
from fedgraft.domains.nodes.base.shards import WholeGraph
from fedgraft.domains.notes import LOG, tell
from fedgraft.domains.tables.reader import read
from fedgraft.domains.tables.rows import arranged
from fedgraft.domains.tables.schema import Column, Table
from fedgraft.errors import InputError

CLASSES = ("trust", "distrust")
"""Names of a rating above 0, and of one below."""


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
    features, label = np.ones((len(ids), 1), np.float32), np.full(len(ids), -1)
    edges = pointers, senders
    graph = WholeGraph.unsplit(name, ids[order], features, label, edges, edge_rows=stored, scale_rows=False)
    return RatedGraph(graph, ends, rating)


@dataclass(frozen=True)
class Bitcoin(DealtNodes[EdgeShard]):
    """Tell ratings by members of a trading platform, before they are made, from the ratings before them.

    An edge is a rating, from -10 (distrust) to 10 (trust), at a time. It is the client's whose member rates. To
    messages earlier ratings are known: the rating divided by 10, and whether it is below 0, are their columns. Of a
    rating that is to be told nothing is known but who rates whom. Members have one feature, 1. Of "sign" one rating in
    ten is distrust, so models are judged by average precision unless `evaluation.metric` says otherwise.

    Source: Kumar et al., "Edge weight prediction in weighted signed networks", ICDM 2016; Kumar et al., "REV2", WSDM
        2018; https://snap.stanford.edu/data/soc-sign-bitcoin-otc.html. fedgraft does not ship it.
    Differs: clients and the split by time, 64:16:20, are ours. Ratings of oneself are left out, with a note.

    Args:
        root: folder of soc-sign-bitcoinotc.csv and soc-sign-bitcoinalpha.csv, with a first line from,to,feature,time.
        set: "otc", 5,881 members and 35,592 ratings, or "alpha", 3,783 and 24,186.
        label: "sign", whether it is "trust" or "distrust", or "weight", the rating as a number.
        clients: over which the members are dealt, >= 1.
        partition: "hash", by the hash of a member's id, the same in every run; or "iid", "louvain", "louvain_even",
            "metis", as of `pyg_nodes`.
        between: whether ratings between clients carry messages; they are told in any case.
    """

    task: ClassVar[str] = "edge"
    judged_by_data: ClassVar[bool] = True

    root: Path
    set: Annotated[str, OneOf(SETS)] = "otc"
    label: Literal["sign", "weight"] = "sign"
    clients: PositiveInt = 5
    partition: Literal["hash", "iid", "louvain", "louvain_even", "metis"] = "hash"
    between: bool = True

    def load(self, seed: int) -> list[EdgeShard]:
        """Load one shard per client; `seed` deals members but by hash."""
        rated = read_ratings(Path(self.root), self.set)
        owner = self.dealing.owner(rated.graph, generator(seed, "partition"))
        names = [f"{self.set}-{k}" for k in range(self.clients)]
        signs = self.label == "sign"
        label = (rated.rating < 0).astype(np.int64) if signs else rated.rating
        columns = np.zeros((len(label), 0), np.float32)
        classes = CLASSES if signs else ()
        return deal_edges(rated.graph, rated.ends, columns, label, classes, owner, names, True, self.between)
