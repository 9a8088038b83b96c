"""Twelve published graphs whose nodes are classified, cut over clients."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np

from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import OneOf, PositiveFloat, PositiveInt, PositiveProportion, Proportion
from fedgraft.domains.dealing import Fold
from fedgraft.domains.nodes.base.partitions import DealtNodes, NodeDealing
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.reading.client_tables import OwnNodes
from fedgraft.domains.nodes.reading.pyg_datasets import read_set
from fedgraft.domains.nodes.reading.pyg_sets import SETS
from fedgraft.domains.notes import tell
from fedgraft.errors import require


@dataclass(frozen=True)
class PygNodes(DealtNodes[NodeShard], OwnNodes):
    """Node classification on a published graph, whose nodes are dealt to clients and whose edges all stay.

    Source: Sen et al., "Collective classification in network data", AI Magazine 2008 (cora, citeseer, pubmed, as Yang
    et al., ICML 2016, cut them); Shchur et al., arXiv:1811.05868 (coauthor_*, amazon_*); Hamilton et al., NeurIPS 2017
    (reddit); Zeng et al., "GraphSAINT", ICLR 2020 (yelp_reviews, flickr); Hu et al., "OGB", NeurIPS 2020 (ogbn_*). Read
    as PyG reads them. fedgraft ships none of them.
    Differs: split by five folds as FedAIS cross-validates, not as published. Edges are undirected, without loops and
    repeats. A node of yelp_reviews has several labels; here it has the one of them that most nodes have.

    Each set's name ("pubmed", "coauthor_cs" ...) is a data name too. The first seven are read from their raw files, and
    nothing is written. The others are downloaded by PyG, or by the package ogb, which write to `root`.

    Args:
        root: folder of the set's folder, as PyG lays them out: root/PubMed/raw/ind.pubmed.x ...,
            root/CS/raw/ms_academic_cs.npz, root/Photo/raw/amazon_electronics_photo.npz ..., root/Reddit.
        set: cora, citeseer, pubmed, coauthor_cs, coauthor_physics, amazon_photo, amazon_computers, reddit,
            yelp_reviews, flickr, ogbn_products or ogbn_arxiv.
        clients: over how many the nodes are dealt, >= 1; 100 in FedAIS.
        partition: "iid", at random in equal numbers; "dirichlet", class by class in drawn proportions, at least five
            nodes a client; "louvain", communities, the largest first, each to the client with the fewest nodes;
            "louvain_even", communities cut so that clients have about equal numbers (FedSage, OpenFGL); or "metis",
            parts of equal size with few edges between them, by the package pymetis.
        alpha: of the Dirichlet distribution, > 0; smaller is more uneven; 0.5 in FedAIS, and 0.05 to 100.
        edges: share of undirected edges that are kept, drawn at random, in (0, 1]; 0.5 in FedAIS.
        fold: which of five folds is the test set, 0..4; of the rest a fifth is for validation.
        shares: "64:16:20", that; "80:10:10", where half of the fold is for validation and half for test (FedAIS prints
            both five folds and 0.8 / 0.1 / 0.1, Table 1); or "20:40:40", where the fold is the training set (OpenFGL).
        between: whether edges between clients are kept; without them a graph is cut as most papers cut it.
        copies: how many clients hold each part of the graph, >= 1; a divisor of `clients`. More than 1, the graph is
            cut into clients / copies parts, and the first clients have a part each, as have the next; no edges run
            between clients.
        wrong_clients: share of clients, drawn at random, that have wrong training labels, in [0, 1]; 0 = none.
        wrong_labels: share of the training labels of such a client that are another class, in [0, 1]; validation and
            test labels stay right.
    """

    task: ClassVar[str] = "node"

    root: Path
    set: Annotated[str, OneOf(SETS)] = "pubmed"
    clients: PositiveInt = 100
    partition: Literal["iid", "dirichlet", "louvain", "louvain_even", "metis"] = "iid"
    alpha: PositiveFloat = 0.5
    edges: PositiveProportion = 1.0
    fold: Fold = 0
    shares: Literal["64:16:20", "80:10:10", "20:40:40"] = "64:16:20"
    between: bool = True
    copies: PositiveInt = 1
    wrong_clients: Proportion = 0.0
    wrong_labels: Proportion = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        reached = not self.wrong_clients or round(self.wrong_clients * self.clients) >= 1
        least = f"0, or enough for one of {self.clients} clients"
        require(reached, "PygNodes.wrong_clients", least, self.wrong_clients)
        require(self.clients % self.copies == 0, "PygNodes.copies", f"a divisor of {self.clients} clients", self.copies)
        fits = self.copies == 1 or not self.between
        require(fits, "PygNodes.between", "false where copies is above 1: a node has several owners then", self.between)

    def load(self, seed: int) -> list[NodeShard]:
        """Load one shard per client, dealt, thinned and split by `seed`."""
        collection = read_set(Path(self.root), self.set)
        tell(collection.notes, f"{collection.whole.name}: ")
        parts = self.dealing.deal(collection.whole, seed)
        if self.copies > 1:
            name = collection.whole.name
            parts = [replace(part, name=f"{name}-{k}") for k, part in enumerate(parts * self.copies)]
        return with_wrong_labels(parts, self.wrong_clients, self.wrong_labels, seed)

    @property
    def dealing(self) -> NodeDealing:
        """How the graph is dealt and split; clients that hold the same are one."""
        return replace(super().dealing, clients=self.clients // self.copies)


# --- wrong labels -----------------------------------------------------------------------------------------------------


def with_wrong_labels(shards: Sequence[NodeShard], clients: float, labels: float, seed: int) -> list[NodeShard]:
    """Return the shards, where a share of clients has a share of its training labels replaced by other classes.

    Symmetric noise: a label that is wrong is any of the other classes with equal probability. Validation and test
    labels stay right. Who they are depends on the seed and the number of clients; numbers are rounded.

    Source: symmetric label noise as in Patrini et al., "Making Deep Neural Networks Robust to Label Noise", CVPR 2017.

    Args:
        shards: of all clients; labels are classes.
        clients: share of clients, in [0, 1].
        labels: share of the training labels of each of them, in [0, 1].
        seed: of the run.
    """
    found, count = list(shards), round(clients * len(shards))
    for k in sorted(generator(seed, "wrong_clients").choice(len(shards), count, replace=False).tolist()):
        found[k] = _altered(found[k], labels, generator(seed, "wrong_labels", client=k))
    return found


def _altered(shard: NodeShard, share: float, g: np.random.Generator) -> NodeShard:
    rows, classes, label = shard.rows("train"), len(shard.classes), shard.label.copy()
    wrong = g.choice(rows, round(share * len(rows)), replace=False)
    label[wrong] = (label[wrong] + g.integers(1, classes, len(wrong))) % classes
    return replace(shard, label=label)
