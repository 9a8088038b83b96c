"""Partition a graph over clients, and count how many of its edges there are."""

import heapq
import logging
from dataclasses import dataclass, replace

import numpy as np

from fedgraft.contracts.randomness import generator
from fedgraft.contracts.values import Indices
from fedgraft.domains.dealing import FOLDS, SHARES, dirichlet, iid, split_nodes
from fedgraft.domains.nodes.base.shards import NodeShard, Numbers, WholeGraph, cut, undirected
from fedgraft.errors import InputError, require, require_one_of

LOG = logging.getLogger("fedgraft.data")

PARTITIONS = ("iid", "dirichlet", "louvain")
ALLOWED = SHARES[:2]
"""Shares of training, validation and test nodes that graphs of one kind of node are split in."""
LOUVAIN_EDGES = 5_000_000
"""Most edges for communities: networkx keeps an object per edge, so that these take minutes and some gigabytes."""


@dataclass(frozen=True)
class Dealing:
    """Options of dealing a graph to clients and of splitting it, which node data sets share.

    Args:
        of: what errors call the options: "PygNodes" for PygNodes.clients ...
        clients: how many, >= 1.
        partition: "iid", "dirichlet" or "louvain".
        alpha: of the Dirichlet distribution, > 0.
        edges: share of undirected edges that are kept, in (0, 1].
        fold: which of the five folds is the test set, or is halved for validation and test.
        shares: of training, validation and test nodes, "64:16:20" or "80:10:10".
    """

    of: str
    clients: int
    partition: str = "iid"
    alpha: float = 0.5
    edges: float = 1.0
    fold: int = 0
    shares: str = ALLOWED[0]

    def __post_init__(self) -> None:
        require(self.clients >= 1, f"{self.of}.clients", "at least 1", self.clients)
        require_one_of(f"{self.of}.partition", self.partition, PARTITIONS)
        require(0 < self.alpha < np.inf, f"{self.of}.alpha", "above 0", self.alpha)
        require(0 < self.edges <= 1, f"{self.of}.edges", "in (0, 1]", self.edges)
        require(0 <= self.fold < FOLDS, f"{self.of}.fold", f"0..{FOLDS - 1}", self.fold)
        require_one_of(f"{self.of}.shares", self.shares, ALLOWED)

    def deal(self, graph: WholeGraph, seed: int, split: bool = True) -> list[NodeShard]:
        """One shard per client. Who holds a node does not depend on `edges`, nor on `fold`; communities see all edges.

        Args:
            graph: the whole.
            seed: of partition, edges and split, each by itself.
            split: whether to split its nodes; else they stay as they are.
        """
        if self.partition != "dirichlet" and self.alpha != Dealing.alpha:
            LOG.warning(f"{self.of}.alpha = {self.alpha:g} is of 'dirichlet' alone; partition is {self.partition!r}.")
        owner = self.owner(graph, generator(seed, "partition"))
        pointers, senders = thin(graph, self.edges, generator(seed, "edges"))
        graph = replace(self.split(graph, seed) if split else graph, pointers=pointers, senders=senders)
        return cut(graph, owner, [f"{graph.name}-{k}" for k in range(self.clients)])

    def split(self, graph: WholeGraph, seed: int) -> WholeGraph:
        """The graph, split by the seed."""
        g = generator(seed, "split")
        return replace(graph, split=split_nodes(graph.label, self.fold, g, graph.name, self.shares))

    def owner(self, graph: WholeGraph, g: np.random.Generator) -> Numbers:
        """int32 [nodes]: the client whose node each is."""
        allowed = f"at most {graph.nodes}, the nodes of {graph.name}"
        require(self.clients <= graph.nodes, f"{self.of}.clients", allowed, self.clients)
        if self.partition == "dirichlet":
            return dirichlet(graph.label, self.clients, self.alpha, g, graph.name)
        if self.partition == "louvain":
            return louvain(graph, self.clients, g)
        return iid(graph.nodes, self.clients, g)


def louvain(graph: WholeGraph, clients: int, g: np.random.Generator) -> Numbers:
    """int32 [nodes]: communities, the largest first, each to the client with the fewest nodes so far.

    Source: Blondel et al., "Fast unfolding of communities in large networks", J. Stat. Mech. 2008, by networkx.
    Differs: where there are fewer communities than clients, the resolution (1) is doubled until there are enough.
    """
    import networkx  # takes a second

    if graph.edges > LOUVAIN_EDGES:
        raise InputError(
            f"partition 'louvain' takes graphs of at most {LOUVAIN_EDGES:,} edges; {graph.name} has {graph.edges:,}. "
            "Take 'iid' or 'dirichlet'."
        )
    low, high = _once(graph)
    network = networkx.Graph()
    network.add_nodes_from(range(graph.nodes))
    network.add_edges_from(zip(low.tolist(), high.tolist(), strict=True))
    seed, resolution = int(g.integers(1 << 31)), 1
    while len(found := networkx.community.louvain_communities(network, resolution=resolution, seed=seed)) < clients:
        resolution *= 2
    if resolution > 1:
        LOG.warning(f"{graph.name}: {len(found)} communities for {clients} clients, at resolution {resolution}.")
    owner = np.empty(graph.nodes, np.int32)
    loads = [(0, k) for k in range(clients)]
    for community in sorted(found, key=lambda each: (-len(each), min(each))):
        load, k = loads[0]
        owner[list(community)] = k
        heapq.heapreplace(loads, (load + len(community), k))
    return owner


def thin(graph: WholeGraph, share: float, g: np.random.Generator) -> tuple[Indices, Numbers]:
    """(pointers, senders) of a random share of the undirected edges, rounded to whole ones."""
    if share == 1:
        return graph.pointers, graph.senders
    low, high = _once(graph)
    kept = g.choice(len(low), round(share * len(low)), replace=False, shuffle=False)
    pointers, senders, _ = undirected(np.stack([low[kept], high[kept]]), graph.nodes, "edge")
    return pointers, senders


def _once(graph: WholeGraph) -> tuple[Numbers, Numbers]:
    """The ends of every undirected edge, the lower one first."""
    receiver = np.repeat(np.arange(graph.nodes, dtype=np.int32), graph.degree)
    upper = receiver < graph.senders
    return receiver[upper], graph.senders[upper]
