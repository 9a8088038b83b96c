"""Partition a graph over clients, and count how many of its edges there are."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.randomness import generator
from fedgraft.contracts.values import Indices
from fedgraft.domains.dealing import SHARES, Dealing, dirichlet, iid
from fedgraft.domains.nodes.base.shards import NodeShard, Numbers, WholeGraph, cut, undirected
from fedgraft.domains.notes import LOG
from fedgraft.errors import InputError, require

PARTITIONS = ("iid", "dirichlet", "louvain")
ALLOWED = SHARES[:2]
"""Shares of training, validation and test nodes that graphs of one kind of node are split in."""
LOUVAIN_EDGES = 5_000_000
"""Most edges for communities: networkx keeps an object per edge, so that these take minutes and some gigabytes."""


@dataclass(frozen=True)
class NodeDealing(Dealing[WholeGraph, NodeShard]):
    """Options of dealing a graph of one kind of nodes; communities see all edges.

    Args:
        edges: share of undirected edges that are kept, in (0, 1].
    """

    partitions: ClassVar[tuple[str, ...]] = PARTITIONS
    allowed: ClassVar[tuple[str, ...]] = ALLOWED

    partition: str = "iid"
    shares: str = ALLOWED[0]
    edges: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.edges <= 1, f"{self.of}.edges", "in (0, 1]", self.edges)

    def owner(self, graph: WholeGraph, g: np.random.Generator) -> Numbers:
        """int32 [nodes]: the client whose node each is."""
        allowed = f"at most {graph.nodes}, the nodes of {graph.name}"
        require(self.clients <= graph.nodes, f"{self.of}.clients", allowed, self.clients)
        if self.partition == "dirichlet":
            return dirichlet(graph.label, self.clients, self.alpha, g, graph.name)
        if self.partition == "louvain":
            return louvain(graph, self.clients, g)
        return iid(graph.nodes, self.clients, g)

    def cut(self, graph: WholeGraph, owner: NDArray[np.integer], names: Sequence[str], seed: int) -> list[NodeShard]:
        """Return the clients' own nodes, with the edges that are kept."""
        pointers, senders = thin(graph, self.edges, generator(seed, "edges"))
        return cut(replace(graph, pointers=pointers, senders=senders), owner, names)


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
    while len(groups := networkx.community.louvain_communities(network, resolution=resolution, seed=seed)) < clients:
        resolution *= 2
    if resolution > 1:
        LOG.warning(f"{graph.name}: {len(groups)} communities for {clients} clients, at resolution {resolution}.")
    owner = np.empty(graph.nodes, np.int32)
    loads = [(0, k) for k in range(clients)]
    for community in sorted(groups, key=lambda each: (-len(each), min(each))):
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
