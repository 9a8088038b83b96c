"""Members of Bitcoin OTC or Alpha and their ratings of each other, dealt to clients: whom will a member distrust?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np

from fedgraft.contracts.data import Data
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import OneOf
from fedgraft.domains.edges.ratings import SETS, read_ratings
from fedgraft.domains.edges.shards import EdgeShard, deal_edges
from fedgraft.domains.nodes.base.partitions import NodeDealing

CLASSES = ("trust", "distrust")
"""Names of a rating above 0, and of one below."""


@dataclass(frozen=True)
class Bitcoin(Data[EdgeShard]):
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
    clients: int = 5
    partition: Literal["hash", "iid", "louvain", "louvain_even", "metis"] = "hash"
    between: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._dealing()

    def load(self, seed: int) -> list[EdgeShard]:
        """Load one shard per client; `seed` deals members but by hash."""
        rated = read_ratings(Path(self.root), self.set)
        owner = self._dealing().owner(rated.graph, generator(seed, "partition"))
        names = [f"{self.set}-{k}" for k in range(self.clients)]
        signs = self.label == "sign"
        label = (rated.rating < 0).astype(np.int64) if signs else rated.rating
        columns = np.zeros((len(label), 0), np.float32)
        classes = CLASSES if signs else ()
        return deal_edges(rated.graph, rated.ends, columns, label, classes, owner, names, True, self.between)

    def _dealing(self) -> NodeDealing:
        return NodeDealing("Bitcoin", self.clients, self.partition)
