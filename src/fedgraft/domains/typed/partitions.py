"""Partition target nodes of a typed graph over clients, and what they are joined to; features of what each holds."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.option_groups import OptionGroup
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import OneOf, PositiveFloat
from fedgraft.contracts.values import Indices
from fedgraft.domains.dealing import SHARES, Dealing, Fold, communities, dealt, dealt_evenly, dirichlet, iid
from fedgraft.domains.notes import LOG
from fedgraft.domains.typed.shards import JOIN, Adjacencies, TypedGraph, adjacencies
from fedgraft.errors import InputError, require

PARTITIONS = ("uniform", "dirichlet", "louvain", "louvain_even")
OTHERS = ("shared", "divided")
ALLOWED = (SHARES[2], SHARES[0])
"""Shares of training, validation and test nodes that typed graphs are split in, the default first."""
STEPS = 2
"""Least steps from a client's target nodes within which it holds other nodes; half of a metapath of four edges."""


@dataclass(frozen=True)
class TypedDealing(Dealing[TypedGraph, TypedGraph]):
    """Options of dealing a typed graph: its target nodes, at random in equal numbers, class by class or by communities.

    Class by class, nodes without a label are dealt at random in equal numbers.

    Args:
        others: who holds nodes of other types: "shared", every client that has a use for them, or "divided", one
            client at random.
    """

    partitions: ClassVar[tuple[str, ...]] = PARTITIONS
    allowed: ClassVar[tuple[str, ...]] = ALLOWED
    alpha_shown: ClassVar[str] = "{!r}"

    partition: str = "uniform"
    shares: str = ALLOWED[0]
    others: Annotated[str, OneOf(OTHERS)] = "shared"

    def owner(self, graph: TypedGraph, g: np.random.Generator) -> NDArray[np.int32]:
        """int32 [targets]: the client whose target node each is."""
        allowed = f"at most {graph.targets}, the nodes of type {graph.target!r} of {graph.name}"
        require(self.clients <= graph.targets, f"{self.of}.clients", allowed, self.clients)
        if self.partition == "uniform":
            return iid(graph.targets, self.clients, g)
        if self.partition == "louvain":
            return dealt(communities_of(graph, self.clients, g), graph.targets, self.clients)
        if self.partition == "louvain_even":
            return dealt_evenly(communities_of(graph, 1, g), graph.targets, self.clients)
        known = graph.label >= 0
        owner = np.empty(graph.targets, np.int32)
        owner[known] = dirichlet(graph.label[known], self.clients, self.alpha, g, graph.name)
        owner[~known] = iid(int((~known).sum()), self.clients, g)
        return owner

    def cut(self, graph: TypedGraph, owner: NDArray[np.integer], names: Sequence[str], seed: int) -> list[TypedGraph]:
        """Return the clients' parts."""
        return parts_of(graph, owner, names, self.others, seed)


@dataclass(frozen=True)
class TypedPartition(OptionGroup):
    """Options of how target nodes are dealt and split, which data sets of typed graphs share.

    Args:
        partition: of target nodes: "uniform", at random in equal numbers; "dirichlet", class by class in drawn
            proportions, at least five nodes with a label a client, those without a label at random; "louvain", by
            communities of the nodes of all types; or "louvain_even", by those, cut so that clients are about equal.
        alpha: of the Dirichlet distribution, > 0; smaller is more uneven; 0.5 in RAFHGL.
        others: who holds nodes of other types: "shared", every client that reaches them from its target nodes without
            passing another client's; or "divided", one client at random as in RAFHGL, which breaks most metapaths.
        fold: which of five folds is the test set, 0..4.
        shares: of training, validation and test nodes: "60:20:20" or "64:16:20".
    """

    partition: Literal["uniform", "dirichlet", "louvain", "louvain_even"] = "uniform"
    alpha: PositiveFloat = 0.5
    others: Literal["shared", "divided"] = "shared"
    fold: Fold = 0
    shares: Literal["60:20:20", "64:16:20"] = "60:20:20"

    def dealing(self, owner: str, clients: int) -> TypedDealing:
        """Return what deals to so many clients; `owner` is what errors call the options."""
        return TypedDealing(owner, clients, **vars(self))


def communities_of(graph: TypedGraph, least: int, g: np.random.Generator) -> list[Indices]:
    """Return the target nodes of each community of the nodes of all types, int64 each; at least so many communities."""
    kinds = [graph.target, *(kind for kind in graph.ids if kind != graph.target)]
    firsts = np.cumsum([0, *(len(graph.ids[kind]) for kind in kinds)])
    first = dict(zip(kinds, firsts.tolist(), strict=False))
    ends = [pairs + np.array([[first[one]], [first[other]]]) for (one, other), pairs in graph.edges.items()]
    return communities(ends, graph.nodes, g, graph.name, "'uniform' or 'dirichlet'", graph.targets, least)


def parts_of(
    graph: TypedGraph, owner: NDArray[np.integer], names: Sequence[str], others: str, seed: int
) -> list[TypedGraph]:
    """Return each client's part: its target nodes, the other nodes that it holds, and all edges between them.

    Where other nodes are shared, a client holds those that it reaches from its target nodes in as many steps as half of
    the longest metapath has, at least two, by nodes of other types than the target's. So no metapath between two of its
    target nodes is broken, but where it passes another client's.

    Arguments, and errors, as of `induced_parts`.
    """
    parts = induced_parts(graph, owner, names, others, seed)
    if idle := sum(len(part.rows("train")) == 0 for part in parts):
        LOG.warning(f"{graph.name}: {idle:,} of {len(names):,} clients have no training nodes; they do not train.")
    return parts


def induced_parts(
    graph: TypedGraph, owner: NDArray[np.integer], names: Sequence[str], others: str, seed: int
) -> list[TypedGraph]:
    """Return what `parts_of` does, of a graph that may not be split yet.

    `owner`, whole numbers [targets], is the number of the client whose target node each is; `others` are "shared" or
    "divided", by a seed. Raises `InputError` for a client without target nodes.
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
    return parts


def reached(graph: TypedGraph, around: Adjacencies, own: Indices) -> dict[str, Indices]:
    """Return the nodes of other types that some target nodes reach without passing another target node.

    The graph is the whole, `around` its adjacencies; `own`, int64 [own], are places of target nodes.

    Returns:
        {type: int64 [nodes], places, ascending}, for every type but the target.
    """
    longest = max((metapath.count(JOIN) for metapath in graph.metapaths), default=0)
    known = {kind: np.zeros(len(ids), bool) for kind, ids in graph.ids.items() if kind != graph.target}
    last = {graph.target: own}
    for _ in range(max(STEPS, longest // 2)):
        new: dict[str, Indices] = {}
        for kind in known:
            nodes = [around[near][kind][rows].indices for near, rows in last.items() if kind in around[near]]
            here = np.unique(np.concatenate(nodes)) if nodes else np.zeros(0, np.int64)
            new[kind] = here[~known[kind][here]]
        for kind, rows in new.items():
            known[kind][rows] = True
        last = new
    return {kind: np.flatnonzero(flags) for kind, flags in known.items()}


WIDTH = 64
"""Features for each type of neighbours."""
SALT = b"fedgraft: signs"
"""Part of every hash, so that all clients give a node the same signs in every run."""
WIDEST = 512
"""Most signs that one hash gives."""


def with_features(graph: TypedGraph) -> TypedGraph:
    """Return a client's graph with features made of what it holds, unless it has some."""
    return graph if graph.width else replace(graph, features=structural_features(graph))


def structural_features(graph: TypedGraph, width: int = WIDTH) -> NDArray[np.float32]:
    """Return features float32 [targets, f] of the target nodes of a graph, such as a client's part.

    First, for each type that target nodes have edges to, log(1 + how many). Then, for each type within two steps,
    `width` numbers: every node of that type has a random sign for each of them, from a hash of its type and id, and a
    target node has the mean of the signs over the nodes of that type that it reaches, scaled to a mean square of 1.
    Each way to a type, such as by "paper" to other authors, counts alike, and on it each step is to a neighbour at
    random; a node does not reach itself. So target nodes with many neighbours in common have like features, whichever
    clients hold them, and clients agree on the signs without a word.

    The width f depends on the types and on `width`, 1..512, alone. Types are in the order of their names. Features that
    the graph has are not read.

    Source: Achlioptas, "Database-friendly random projections", JCSS 2003; Chen et al., "FastRP", CIKM 2019.
    """
    require(1 <= width <= WIDEST, "width", f"1..{WIDEST}", width)
    around = adjacencies(graph)
    near = sorted(around[graph.target])
    counts = [np.log1p(np.diff(around[graph.target][kind].indptr)) for kind in near]
    parts = [np.stack(counts, axis=1)] if counts else [np.zeros((graph.targets, 0))]
    behind = (kind for by in near for kind in around[by])
    parts += [_projected(graph, around, kind, width) for kind in sorted({*near, *behind})]
    return np.concatenate(parts, axis=1).astype(np.float32)


def structural_width(graph: TypedGraph) -> int:
    """Return how many features `structural_features` makes, which depends on types alone."""
    joined: dict[str, set[str]] = {}
    for one, other in graph.edges:
        joined.setdefault(one, set()).add(other)
        joined.setdefault(other, set()).add(one)
    near = joined.get(graph.target, set())
    return len(near) + WIDTH * len(near.union(*(joined[kind] for kind in near)))


def _projected(graph: TypedGraph, around: Adjacencies, kind: str, width: int) -> NDArray[np.float32]:
    """Float32 [targets, width]: mean signs of the nodes of a type within two steps, with a mean square of 1."""
    signs = _signs(kind, graph.ids[kind], width)
    first = around[graph.target]
    ways = [_mean(first[kind]) @ signs] if kind in first else []
    for by in sorted(first):
        if kind not in around[by]:
            continue
        step, then = _mean(first[by]), _mean(around[by][kind])
        reached = step @ (then @ signs)
        if kind == graph.target:
            itself = np.asarray(step.multiply(then.T).sum(axis=1)).ravel()[:, None]
            left = 1 - itself
            reached = np.where(left > 1e-6, (reached - itself * signs) / np.maximum(left, 1e-6), 0)
        ways.append(reached)
    mean = np.mean(ways, axis=0, dtype=np.float32)
    size = np.sqrt((mean**2).mean(axis=1, keepdims=True))
    return np.asarray(np.divide(mean, size, out=np.zeros_like(mean), where=size > 1e-6))


def _mean(joined: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return a matrix whose rows sum to 1, or to 0 where there is nothing."""
    degree = np.diff(joined.indptr)
    return sparse.csr_matrix(sparse.diags((1 / np.maximum(degree, 1)).astype(np.float32)) @ joined)


def _signs(kind: str, ids: NDArray[np.object_], width: int) -> NDArray[np.float32]:
    """Float32 [nodes, width], -1 or 1: the same for a type and an id, as text, everywhere."""
    size = -(-width // 8)
    drawn = b"".join(
        hashlib.blake2b(f"{kind}\0{one}".encode(errors="surrogatepass"), digest_size=size, key=SALT).digest()
        for one in ids
    )
    bits = np.unpackbits(np.frombuffer(drawn, np.uint8).reshape(len(ids), size), axis=1)[:, :width]
    return bits.astype(np.float32) * 2 - 1
