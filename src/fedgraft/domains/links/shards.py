"""One client's own part of a graph with some of its edges held out, and pairs without an edge beside these.

Rules:
    Edges     those between own nodes. Edges to nodes elsewhere have no part in anything. Where edges carry something,
              several may join two nodes; these are one to be told, and held out together.
    Split     a share of them is for validation, a share for test; at least one each, of three edges or more. The others
              train, and they alone carry messages. Of own tables the hash of its ends says where an edge is.
    No edges  each split has pairs of own nodes without an edge of any split: as many as it has edges, or `FEWEST` where
              that is more, or all that there are. No pair is in both splits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.data import KnownRows
from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.keyed_split import Hashes, joined_either_way, named, split_by_hash
from fedgraft.domains.nodes.base.shards import NodeShard, each_once, merge_shards
from fedgraft.domains.nodes.training.halo_setup import inside, without_edges
from fedgraft.errors import literal, require

FEWEST: Final = 100
"""Pairs without an edge that a split has at least; of a small client's few, its score would be a draw of luck."""


@dataclass(frozen=True, eq=False)
class LinkShard(KnownRows):
    """One client's own part of a graph, some edges held out.

    Args:
        graph: the part, without the edges held out and without neighbours elsewhere.
        pairs: int32 [2, n], pairs of own nodes to be scored, the lower one first.
        split: int8 [n], index into `SPLITS` of each: 1 or 2.
        edge: bool [n], whether it is an edge that is held out.
        part: int32 [n], which client's it is where those of several are one; else 0.
    """

    graph: NodeShard
    pairs: NDArray[np.int32]
    split: NDArray[np.int8]
    edge: NDArray[np.bool_]
    part: NDArray[np.int32]

    def __post_init__(self) -> None:
        what, count = f"LinkShard.{{}} of {literal(self.name)}", len(self.split)
        for key, array, shape in (
            ("pairs", self.pairs, (2, count)),
            ("edge", self.edge, (count,)),
            ("part", self.part, (count,)),
        ):
            require(array.shape == shape, what.format(key), f"of shape {shape}", array.shape)
        sound = not count or (self.pairs.min() >= 0 and self.pairs.max() < self.graph.own)
        require(sound, what.format("pairs"), f"0..{self.graph.own - 1}, own nodes", int(self.pairs.max(initial=0)))

    @property
    def name(self) -> str:
        """str, the client's name."""
        return self.graph.name

    @property
    def edges(self) -> Indices:
        """Training edges, int64 [2, edges], the lower node first; each once, however many join two nodes."""
        return edges_of(self.graph)

    def parted(self) -> tuple[Hashes, NDArray[np.integer]]:
        """Return the hash and the split of each edge, those that train first."""
        ends = np.concatenate([self.edges, self.pairs[:, self.edge]], axis=1)
        split = np.concatenate([np.zeros(self.edges.shape[1], np.int8), self.split[self.edge]])
        return self._hashes(ends), split

    def untested(self, seen: Hashes) -> tuple[Self, int]:
        """Return the shard without held-out edges that are `seen`, by their hashes, and how many they are."""
        left = self.edge & np.isin(self._hashes(self.pairs), seen)
        some = {name: getattr(self, name)[~left] for name in ("split", "edge", "part")}
        return replace(self, pairs=self.pairs[:, ~left], **some), int(left.sum())

    def _hashes(self, ends: NDArray[np.integer]) -> Hashes:
        return joined_either_way(named(self.graph.ids)[ends])

    def rows(self, split: str) -> Indices:
        """Places of the edges that are scored, int64 [n]: a client's score counts as often as it has such edges."""
        scored = [ranked[self.edge[ranked]] for ranked in self.rankings(split)]
        return np.concatenate([np.zeros(0, np.int64), *scored])

    def rankings(self, split: str) -> list[Indices]:
        """Return places of the pairs that are ranked together, int64 [n] each: those of a client with both kinds."""
        mine = self.split == SPLITS.index(split)
        places = [np.flatnonzero(mine & (self.part == part)) for part in np.unique(self.part[mine])]
        return [each for each in places if 0 < self.edge[each].sum() < len(each)]


def edges_of(graph: NodeShard) -> Indices:
    """Return edges between own nodes, int64 [2, edges], each once, the lower node first, in ascending order."""
    graph = each_once(graph)
    receiver, sender = np.repeat(np.arange(graph.own), graph.degree), graph.senders.astype(np.int64)
    once = (receiver < sender) & (sender < graph.own)
    return np.stack([receiver[once], sender[once]])


def codes_of(pairs: NDArray[np.integer], nodes: int) -> Indices:
    """Return a number for each pair of so many nodes, int64 [n], the same whichever of the two is first."""
    low, high = (end(pairs[0], pairs[1]).astype(np.int64) for end in (np.minimum, np.maximum))
    return np.asarray(low * nodes + high)


def whole(shard: NodeShard) -> LinkShard:
    """Return a client's part with nothing held out."""
    none = np.zeros(0)
    return LinkShard(
        inside(shard), np.zeros((2, 0), np.int32), none.astype(np.int8), none.astype(bool), none.astype(np.int32)
    )


def hold_out(
    shard: NodeShard, validation: float, test: float, g: np.random.Generator, split_seed: int | None = None
) -> LinkShard:
    """Hold out shares of the edges of a client's part, drawn from `g`; both are in (0, 1) and together below 1.

    With a `split_seed` the hash of an edge's ends says whether it is held out, and only other pairs are drawn.
    """
    graph = inside(shard)
    edges = edges_of(graph)
    count = edges.shape[1]
    if count < len(SPLITS):
        return whole(shard)
    if split_seed is None:
        tested = min(max(1, int(test * count)), count - 2)
        validated = min(max(1, int(validation * count)), count - tested - 1)
        held = g.permutation(count)[: tested + validated]
    else:
        rows = joined_either_way(named(graph.ids)[edges])
        parts = split_by_hash(rows, split_seed, (validation, test), few=len(SPLITS))
        chosen = [np.flatnonzero(parts == SPLITS.index(name)) for name in ("test", "validation")]
        tested, validated = map(len, chosen)
        held = np.concatenate(chosen)
    split = np.repeat(np.array([SPLITS.index("test"), SPLITS.index("validation")], np.int8), [tested, validated])
    others = _no_edges(edges, graph.own, sum(max(each, FEWEST) for each in (tested, validated)), g)
    share = max(tested, FEWEST) / (max(tested, FEWEST) + max(validated, FEWEST))
    bound = int(share * others.shape[1])
    apart = np.full(others.shape[1], SPLITS.index("validation"), np.int8)
    apart[:bound] = SPLITS.index("test")
    receiver = np.repeat(np.arange(graph.own), graph.degree)
    codes = codes_of(np.stack([receiver, graph.senders]), graph.own)
    return LinkShard(
        graph=without_edges(graph, ~np.isin(codes, codes_of(edges[:, held], graph.own))),
        pairs=np.concatenate([edges[:, held], others], axis=1).astype(np.int32),
        split=np.concatenate([split, apart]),
        edge=np.arange(len(held) + others.shape[1]) < len(held),
        part=np.zeros(len(held) + others.shape[1], np.int32),
    )


def merge_links(shards: Sequence[LinkShard]) -> LinkShard:
    """All shards as one client's, with the edges of each and none between them; pairs stay those of their clients."""
    counts = np.array([shard.graph.own for shard in shards])
    starts = np.cumsum(counts) - counts
    parts = [int(shard.part.max(initial=0)) + 1 for shard in shards]
    firsts = np.cumsum(parts) - parts
    moved = [shard.pairs + start for shard, start in zip(shards, starts, strict=True)]
    return LinkShard(
        graph=merge_shards([shard.graph for shard in shards]),
        pairs=np.concatenate(moved, axis=1).astype(np.int32),
        split=np.concatenate([shard.split for shard in shards]),
        edge=np.concatenate([shard.edge for shard in shards]),
        part=np.concatenate([shard.part + first for shard, first in zip(shards, firsts, strict=True)]).astype(np.int32),
    )


def _no_edges(edges: Indices, nodes: int, count: int, g: np.random.Generator) -> Indices:
    """Draw pairs without an edge, int64 [2, at most count], distinct, in random order."""
    known, pairs = codes_of(edges, nodes), nodes * (nodes - 1) // 2
    if pairs <= 8 * (len(known) + count):  # few enough to look at each; drawing would find the last ones late
        low, high = np.triu_indices(nodes, 1)
        free = np.setdiff1d(low * nodes + high, known)
        codes = g.permutation(free)[:count]
    else:
        codes = np.zeros(0, np.int64)
        while len(codes) < count:
            ends = g.integers(0, nodes, (2, 2 * count))
            drawn = codes_of(ends[:, ends[0] != ends[1]], nodes)
            every = np.concatenate([codes, drawn[~np.isin(drawn, known)]])
            codes = every[np.sort(np.unique(every, return_index=True)[1])][:count]
    return np.stack([codes // nodes, codes % nodes])
