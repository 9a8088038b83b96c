"""Partition a graph over clients, and count how many of its edges there are."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.data import Data
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import PositiveProportion
from fedgraft.contracts.task import Shard
from fedgraft.contracts.values import Indices
from fedgraft.domains.dealing import SHARES, Dealing, communities, dealt, dealt_evenly, dirichlet, iid
from fedgraft.domains.edge_data.edge_rows import taken
from fedgraft.domains.nodes.base.shards import NodeShard, Numbers, WholeGraph, cut, undirected
from fedgraft.errors import InputError, require

PARTITIONS = ("iid", "dirichlet", "louvain", "louvain_even", "metis", "hash")
ALLOWED = (*SHARES[:2], SHARES[3])
"""Shares of training, validation and test nodes that graphs of one kind of node are split in."""


@dataclass(frozen=True)
class NodeDealing(Dealing[WholeGraph, NodeShard]):
    """Options of dealing a graph of one kind of nodes; communities see all edges.

    Args:
        edges: share of undirected edges that are kept, in (0, 1].
        between: whether edges between clients are kept.
    """

    partitions: ClassVar[tuple[str, ...]] = PARTITIONS
    allowed: ClassVar[tuple[str, ...]] = ALLOWED

    partition: str = "iid"
    shares: str = ALLOWED[0]
    edges: PositiveProportion = 1.0
    between: bool = True

    def owner(self, graph: WholeGraph, g: np.random.Generator) -> Numbers:
        """int32 [nodes]: the client whose node each is."""
        allowed = f"at most {graph.nodes}, the nodes of {graph.name}"
        require(self.clients <= graph.nodes, f"{self.of}.clients", allowed, self.clients)
        if self.partition == "dirichlet":
            return dirichlet(graph.label, self.clients, self.alpha, g, graph.name)
        if self.partition == "iid":
            return iid(graph.nodes, self.clients, g)
        if self.partition == "hash":
            return by_hash(graph, self.clients)
        return {"louvain": louvain, "louvain_even": louvain_even, "metis": metis}[self.partition](
            graph, self.clients, g
        )

    def cut(self, graph: WholeGraph, owner: NDArray[np.integer], names: Sequence[str], seed: int) -> list[NodeShard]:
        """Return the clients' own nodes, with the edges that are kept."""
        kept = thin(graph, self.edges, generator(seed, "edges"))
        return cut(kept if self.between else apart(kept, owner), owner, names)


_OPTIONS = {each.name for each in fields(NodeDealing)} - {"of"}


class DealtNodes(Data[Shard]):
    """Part of data sets of one graph that is dealt to clients: options of `NodeDealing` by the same names."""

    @property
    def dealing(self) -> NodeDealing:
        """How the graph is dealt and split."""
        return NodeDealing(type(self).__name__, **{name: vars(self)[name] for name in _OPTIONS & {*vars(self)}})


def by_hash(graph: WholeGraph, clients: int) -> Numbers:
    """int32 [nodes]: the hash of a node's id modulo the number of clients, the same in every run, whatever the seed."""
    return (graph.hashes() % np.uint64(clients)).astype(np.int32)


def louvain(graph: WholeGraph, clients: int, g: np.random.Generator) -> Numbers:
    """int32 [nodes]: communities, the largest first, each to the client with the fewest nodes so far."""
    return dealt(_communities(graph, g, clients), graph.nodes, clients)


def louvain_even(graph: WholeGraph, clients: int, g: np.random.Generator) -> Numbers:
    """int32 [nodes]: communities cut to at most a client's share of nodes, dealt so that clients are about equal."""
    return dealt_evenly(_communities(graph, g), graph.nodes, clients)


def metis(graph: WholeGraph, clients: int, g: np.random.Generator) -> Numbers:
    """int32 [nodes]: parts of about equal size between which few edges run; the seed draws which client has which.

    Source: Karypis and Kumar, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs", SIAM J.
        Sci. Comput. 1998, by the package pymetis.
    """
    try:
        import pymetis
    except ImportError as error:
        raise InputError(
            f"partition 'metis' needs the package pymetis, which cannot be imported ({error}): "
            "pip install 'fedgraft[metis]'."
        ) from error
    pointers, senders = graph.pointers.astype(np.int64), graph.senders.astype(np.int64)
    parts = pymetis.part_graph(clients, xadj=pointers, adjncy=senders)[1] if clients > 1 else [0] * graph.nodes
    return np.take(g.permutation(clients).astype(np.int32), np.asarray(parts, np.int64))


def _communities(graph: WholeGraph, g: np.random.Generator, least: int = 1) -> list[Indices]:
    """Communities, the largest first; at least so many."""
    instead = "'iid', 'dirichlet' or 'metis'"
    return communities([np.stack(_once(graph))], graph.nodes, g, graph.name, instead, least=least)


def apart(graph: WholeGraph, owner: NDArray[np.integer]) -> WholeGraph:
    """The graph without the edges between clients; `owner`, whole numbers [nodes], is the number of a node's client."""
    receiver = np.repeat(np.arange(graph.nodes), graph.degree)
    return _without(graph, owner[receiver] == owner[graph.senders])


def thin(graph: WholeGraph, share: float, g: np.random.Generator) -> WholeGraph:
    """The graph with a random share of its edges, rounded to whole ones."""
    if share == 1:
        return graph
    if graph.edge_rows is not None:
        numbers = np.unique(graph.edge_rows.number)
        left = g.choice(numbers, round(share * len(numbers)), replace=False, shuffle=False)
        return _without(graph, np.isin(graph.edge_rows.number, left))
    low, high = _once(graph)
    kept = g.choice(len(low), round(share * len(low)), replace=False, shuffle=False)
    pointers, senders, _ = undirected(np.stack([low[kept], high[kept]]), graph.nodes, "edge")
    return replace(graph, pointers=pointers, senders=senders)


def _without(graph: WholeGraph, kept: NDArray[np.bool_]) -> WholeGraph:
    """The graph with some of its stored edges, bool [stored]."""
    receiver = np.repeat(np.arange(graph.nodes), graph.degree)[kept]
    pointers = np.concatenate([[0], np.cumsum(np.bincount(receiver, minlength=graph.nodes))])
    return replace(graph, pointers=pointers, senders=graph.senders[kept], edge_rows=taken(graph.edge_rows, kept))


def _once(graph: WholeGraph) -> tuple[Numbers, Numbers]:
    """The ends of every undirected edge, the lower one first."""
    receiver = np.repeat(np.arange(graph.nodes, dtype=np.int32), graph.degree)
    upper = receiver < graph.senders
    return receiver[upper], graph.senders[upper]
