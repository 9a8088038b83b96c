"""Partition target nodes of a typed graph over clients, and what they are joined to."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.randomness import generator
from fedgraft.contracts.values import Indices
from fedgraft.domains.dealing import FOLDS, SHARES, dirichlet, iid, split_nodes
from fedgraft.domains.typed.edges import Adjacencies, adjacencies
from fedgraft.domains.typed.shards import JOIN, TypedGraph
from fedgraft.errors import InputError, require, require_one_of

LOG = logging.getLogger("fedgraft.data")

PARTITIONS = ("uniform", "dirichlet")
OTHERS = ("shared", "divided")
ALLOWED = (SHARES[2], SHARES[0])
"""Shares of training, validation and test nodes that typed graphs are split in, the default first."""
STEPS = 2
"""Least steps from a client's target nodes within which it holds other nodes; half of a metapath of four edges."""


@dataclass(frozen=True)
class Dealing:
    """Options of dealing a typed graph to clients and of splitting it, which typed data sets share.

    Args:
        of: what errors call the options: "TypedSets" for TypedSets.clients ...
        clients: how many, >= 1.
        partition: of target nodes: "uniform", at random in equal numbers, or "dirichlet", class by class in drawn
            proportions; those without a label at random in equal numbers.
        alpha: of the Dirichlet distribution, > 0.
        others: who holds nodes of other types: "shared", every client that has a use for them, or "divided", one
            client at random.
        fold: which of the five folds is the test set.
        shares: of training, validation and test nodes, "60:20:20" or "64:16:20".
    """

    of: str
    clients: int
    partition: str = "uniform"
    alpha: float = 0.5
    others: str = "shared"
    fold: int = 0
    shares: str = ALLOWED[0]

    def __post_init__(self) -> None:
        require(self.clients >= 1, f"{self.of}.clients", "at least 1", self.clients)
        require_one_of(f"{self.of}.partition", self.partition, PARTITIONS)
        require(0 < self.alpha < np.inf, f"{self.of}.alpha", "above 0", self.alpha)
        require_one_of(f"{self.of}.others", self.others, OTHERS)
        require(0 <= self.fold < FOLDS, f"{self.of}.fold", f"0..{FOLDS - 1}", self.fold)
        require_one_of(f"{self.of}.shares", self.shares, ALLOWED)

    def deal(self, graph: TypedGraph, seed: int, split: bool = True) -> list[TypedGraph]:
        """Return one part per client. Who holds a target node does not depend on `others`, nor on `fold`.

        Args:
            graph: the whole.
            seed: of partition, other nodes and split, each by itself.
            split: whether to split its target nodes; else they stay as they are.
        """
        if self.partition != "dirichlet" and self.alpha != Dealing.alpha:
            LOG.warning(f"{self.of}.alpha = {self.alpha:g} is of 'dirichlet' alone; partition is {self.partition!r}.")
        owner = self.owner(graph, generator(seed, "partition"))
        names = [f"{graph.name}-{k}" for k in range(self.clients)]
        return parts_of(self.split(graph, seed) if split else graph, owner, names, self.others, seed)

    def split(self, graph: TypedGraph, seed: int) -> TypedGraph:
        """Return the graph, split by the seed."""
        g = generator(seed, "split")
        return replace(graph, split=split_nodes(graph.label, self.fold, g, graph.name, self.shares))

    def owner(self, graph: TypedGraph, g: np.random.Generator) -> NDArray[np.int32]:
        """int32 [targets]: the client whose target node each is."""
        allowed = f"at most {graph.targets}, the nodes of type {graph.target!r} of {graph.name}"
        require(self.clients <= graph.targets, f"{self.of}.clients", allowed, self.clients)
        if self.partition == "uniform":
            return iid(graph.targets, self.clients, g)
        known = graph.label >= 0
        owner = np.empty(graph.targets, np.int32)
        owner[known] = dirichlet(graph.label[known], self.clients, self.alpha, g, graph.name)
        owner[~known] = iid(int((~known).sum()), self.clients, g)
        return owner


def parts_of(
    graph: TypedGraph, owner: NDArray[np.integer], names: Sequence[str], others: str, seed: int
) -> list[TypedGraph]:
    """Return each client's part: its target nodes, the other nodes that it holds, and all edges between them.

    Where other nodes are shared, a client holds those that it reaches from its target nodes in as many steps as half of
    the longest metapath has, at least two, by nodes of other types than the target's. So no metapath between two of its
    target nodes is broken, but where it passes another client's.

    Args:
        graph: the whole.
        owner: whole numbers [targets], the number of the client whose target node each is.
        names: of the clients, in order.
        others: "shared" or "divided".
        seed: of who is dealt a node that is not shared.

    Raises `InputError` for a client without target nodes.
    """
    counts = np.bincount(owner, minlength=len(names))
    if len(empty := np.flatnonzero(counts == 0)):
        raise InputError(
            f"{graph.name}: client {names[empty[0]]!r} has no nodes of type {graph.target!r} ({len(empty)} such "
            "clients); every client needs one. Take fewer clients or another partition."
        )
    rest = [kind for kind in graph.ids if kind != graph.target]
    dealt: dict[str, NDArray[np.int32]] = {}
    around: Adjacencies = {}
    if others == "divided":
        g = generator(seed, "others")
        dealt = {kind: iid(len(graph.ids[kind]), len(names), g) for kind in sorted(rest)}
    else:
        around = adjacencies(graph)
    parts = []
    for client, name in enumerate(names):
        own = np.flatnonzero(owner == client)
        held = {kind: np.flatnonzero(of == client) for kind, of in dealt.items()} or reached(graph, around, own)
        parts.append(graph.induced(name, {graph.target: own, **held}))
    if idle := sum(len(part.rows("train")) == 0 for part in parts):
        LOG.warning(f"{graph.name}: {idle:,} of {len(names):,} clients have no training nodes; they do not train.")
    return parts


def reached(graph: TypedGraph, around: Adjacencies, own: Indices) -> dict[str, Indices]:
    """Return the nodes of other types that some target nodes reach without passing another target node.

    Args:
        graph: the whole.
        around: its adjacencies.
        own: int64 [own], places of target nodes.

    Returns:
        {type: int64 [nodes], places, ascending}, for every type but the target.
    """
    longest = max((metapath.count(JOIN) for metapath in graph.metapaths), default=0)
    known = {kind: np.zeros(len(ids), bool) for kind, ids in graph.ids.items() if kind != graph.target}
    last = {graph.target: own}
    for _ in range(max(STEPS, longest // 2)):
        new: dict[str, Indices] = {}
        for kind in known:
            found = [around[near][kind][rows].indices for near, rows in last.items() if kind in around[near]]
            here = np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)
            new[kind] = here[~known[kind][here]]
        for kind, rows in new.items():
            known[kind][rows] = True
        last = new
    return {kind: np.flatnonzero(flags) for kind, flags in known.items()}
