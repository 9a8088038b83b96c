"""Agree, once before training, on whose nodes each client needs, and on raw features if these are shared.

A client publishes the addresses of its halo, which of its own nodes have a neighbour elsewhere, and of these their
degrees and, if they are shared, features. It gets back, for its halo, what their owners published, and which of its
own nodes anybody needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.values import Halo, Indices
from fedgraft.domains.edge_data.edge_rows import taken
from fedgraft.domains.examples import Features, stacked
from fedgraft.domains.nodes.base.features import FeatureCoding
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.errors import WireError
from fedgraft.nn.sparse import ranges
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout, Spec
from fedgraft.wire.lazy import Made
from fedgraft.wire.packing import count_bits, set_bits


@dataclass(frozen=True, eq=False)
class PublishedRows:
    """What owners know of some nodes of a halo: `slots`, int64 [nodes], ascending, say of which.

    `degree` is [nodes], and `features` float32 [nodes, f]; None where these are not shared.
    """

    slots: Indices
    degree: Array
    features: "Features | None"


@dataclass(frozen=True)
class HaloSetup:
    """The set-up in which clients publish whose nodes they need, and features, if these are shared, as coded rows.

    `weighted` says whether edges have weights: a degree is then the sum of these. Where rows are `encrypted` the
    server sees neither degrees nor features but for how many there are; sparse features then travel with their zeros.
    """

    coding: FeatureCoding
    features: bool
    weighted: bool = False
    encrypted: bool = False

    @property
    def travelling(self) -> FeatureCoding:
        """The code in which features travel."""
        return replace(self.coding, is_sparse=self.coding.is_sparse and not self.encrypted)

    @property
    def statistics_layout(self) -> Layout:
        """Layout of what a client publishes."""
        known = (
            Spec("nodes", "uint32", (1,), "sizes"),
            Spec("owner", "uint32", (VARIABLE,), "rows"),
            Spec("place", "uint32", (VARIABLE,), "rows"),
            self._degree_spec,
        )
        return Layout((*known, *self._feature_specs, Spec("boundary", "uint8", (VARIABLE,), "rows")))

    @property
    def combined_layout(self) -> Layout:
        """Layout of what a client gets back."""
        known = (Spec("needed", "uint8", (VARIABLE,)), Spec("known", "uint8", (VARIABLE,)))
        return Layout((self._degree_spec, *self._feature_specs, *known))

    def statistics(self, shard: NodeShard, wanted: NDArray[np.bool_] | None = None) -> Arrays:
        """Return what a client publishes; `wanted`, bool [own], says of which nodes, by default those with a halo."""
        cut = np.zeros(shard.own, bool)
        cut[np.repeat(np.arange(shard.own), shard.degree)[shard.senders >= shard.own]] = True
        cut = cut if wanted is None else cut | wanted
        boundary = np.flatnonzero(cut)
        return {
            "nodes": np.array([shard.own], np.uint32),
            "owner": shard.halo_owner.astype(np.uint32),
            "place": shard.halo_place.astype(np.uint32),
            "boundary": np.packbits(cut),
            "degree": shard.weighted_degree[boundary] if self.weighted else shard.degree[boundary].astype(np.uint32),
            **(self.travelling.pack(self._travels(shard.features[boundary])) if self.features else {}),
        }

    def check(self, statistics: Arrays) -> None:
        """Raise `WireError` for what no client can have published."""
        nodes, marked = int(statistics["nodes"][0]), count_bits(statistics["boundary"])
        if not nodes:
            raise WireError("a client without nodes")
        if len(statistics["boundary"]) != -(-nodes // 8):  # so that nobody makes the server think of billions of nodes
            raise WireError(f"{len(statistics['boundary'])} bytes of marks of {nodes} nodes")
        # Counted first: then the message is about as long as what is made of it.
        if len(statistics["degree"]) != marked:
            raise WireError(f"degrees of {len(statistics['degree'])} nodes where {marked} are meant")
        if not self.encrypted:
            self._check_weights(statistics["degree"])
        boundary = set_bits(statistics["boundary"])
        if marked and boundary[-1] >= nodes:
            raise WireError(f"node {boundary[-1]} has neighbours elsewhere, but there are {nodes} nodes")
        if len(statistics["owner"]) != len(statistics["place"]):
            raise WireError(f"{len(statistics['owner'])} owners of nodes at {len(statistics['place'])} places")
        address = statistics["owner"].astype(np.int64) << 32 | statistics["place"]
        if (np.diff(address) <= 0).any():
            raise WireError("addresses must ascend, each node once")
        if self.features:
            self.travelling.unpack(statistics, marked)

    def halos(self, statistics: Mapping[int, Arrays]) -> dict[int, tuple[int, Halo]]:
        """{client: how many nodes it has, and whose it needs}."""
        return {
            client: (int(each["nodes"][0]), Halo(each["owner"].astype(np.int64), each["place"].astype(np.int64)))
            for client, each in statistics.items()
        }

    def combine(self, statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
        """Return what each client gets back, made when asked for: together they may be many times the graph."""
        halos = self.halos(statistics)
        wanted: dict[int, list[Indices]] = {client: [] for client in halos}
        for _, (owner, place) in halos.values():
            for each in np.unique(owner).tolist():
                if each in wanted:
                    wanted[each].append(place[owner == each])
        needed = {client: _bits(wanted[client], nodes) for client, (nodes, _) in halos.items()}
        published = {client: _Published(self, each) for client, each in statistics.items()}
        return Made(halos, lambda client: self._answer(client, halos[client][1], needed[client], published))

    def received(self, shard: NodeShard, shared: Arrays) -> tuple[Features, Array, Array, Indices]:
        """Return features of the halo (zero where unknown), bool [halo] whether they are known, degrees; needed nodes.

        Where nothing of this was received, as where a model is used outside a run, nothing of others is known.
        """
        halo = shard.halo
        empty = self.coding.empty(halo)
        if "known" not in shared:  # what all were told alike may be
            return empty, np.zeros(halo, bool), np.zeros(halo, self._degree_spec.dtype), np.zeros(0, np.int64)
        there = np.unpackbits(shared["known"], count=halo).view(bool)
        features, known = empty, np.zeros(halo, bool)
        if self.encrypted:
            self._check_weights(shared["degree"])
        if self.features:
            rows = self.travelling.unpack(shared, int(there.sum()))
            features, known = self._spread(sparse.csr_matrix(rows) if self.coding.is_sparse else rows, there), there
        degree = np.zeros(halo, self._degree_spec.dtype)
        degree[there] = shared["degree"]
        return features, known, degree, set_bits(shared["needed"])

    def widened(self, shared: Arrays, slots: Indices, halo: int, told: PublishedRows | None) -> Arrays:
        """Return what a client got back as of a halo of so many nodes, in which those before are at `slots`.

        Of the others it has what is `told`; what it got back itself counts first.
        """
        if not shared:
            nothing = {spec.name: np.zeros(0, spec.dtype) for spec in self.combined_layout}
            shared = {**nothing, **(self.travelling.pack(self._travels(self.coding.empty(0))) if self.features else {})}
            slots = slots[:0]
        there = np.unpackbits(shared["known"], count=len(slots)).view(bool)
        known = np.zeros(halo, bool)
        known[slots[there]] = True
        if told is None:
            return {**shared, "known": np.packbits(known)}
        more = ~known[told.slots]
        order = np.argsort(np.concatenate([slots[there], told.slots[more]]))
        known[told.slots] = True
        arrays = {
            "degree": np.concatenate([shared["degree"], told.degree[more]]).astype(self._degree_spec.dtype)[order]
        }
        if self.features and told.features is not None:
            before, new = self.travelling.unpack(shared, int(there.sum())), self._travels(told.features[more])
            arrays |= self.travelling.pack(stacked([before, new])[order])
        return {**shared, **arrays, "known": np.packbits(known)}

    @property
    def handed_on(self) -> tuple[str, ...]:
        """Names of the arrays that the server only hands on, a row for each node, if rows are encrypted."""
        return ("degree", *(spec.name for spec in self._feature_specs)) if self.encrypted else ()

    def sent_places(self, client: int, statistics: Arrays) -> dict[str, Indices]:
        """{array: whose node each row is of, and which of theirs, int64 [rows, 2]}, of what a client publishes."""
        boundary = set_bits(statistics["boundary"])
        place = np.stack([np.full(len(boundary), client), boundary], axis=1)
        return dict.fromkeys(self.handed_on, place)

    def received_places(self, halo: Halo, shared: Arrays) -> dict[str, Indices]:
        """Return the same of what a client with this halo got back. Raises `WireError` for misfits."""
        if len(shared["known"]) != -(-len(halo.owner) // 8):
            raise WireError(f"{len(shared['known'])} bytes of marks of {len(halo.owner)} nodes")
        there = np.unpackbits(shared["known"], count=len(halo.owner)).view(bool)
        place = np.stack([halo.owner[there], halo.place[there]], axis=1).astype(np.int64)
        if any(len(shared[name]) != len(place) for name in self.handed_on):
            raise WireError(f"encrypted rows that are not of {len(place)} nodes")
        return dict.fromkeys(self.handed_on, place)

    def _travels(self, features: Features) -> Features:
        """Rows as they are packed."""
        return features if isinstance(features, np.ndarray) or not self.encrypted else features.toarray()

    def _check_weights(self, degree: Array) -> None:
        # In few bits a small sum beside large ones is 0.
        if self.weighted and not ((degree >= 0) & np.isfinite(degree)).all():
            raise WireError("sums of weights that are not finite and at least 0")

    @property
    def _feature_specs(self) -> tuple[Spec, ...]:
        return self.travelling.specs if self.features else ()

    @property
    def _degree_spec(self) -> Spec:
        return Spec("degree", "float32" if self.weighted else "uint32", (VARIABLE,), "rows")

    def _answer(self, client: int, halo: Halo, needed: Array, published: Mapping[int, "_Published"]) -> Arrays:
        known, own = np.zeros(len(halo.owner), bool), published[client]
        degree, rows = [own.degree[:0]], [] if own.features is None else [own.features[:0]]
        for owner in np.unique(halo.owner).tolist():
            if owner not in published:
                continue
            mine = np.flatnonzero(halo.owner == owner)
            there = published[owner].position(halo.place[mine])
            known[mine[there >= 0]] = True
            degree.append(published[owner].degree[there[there >= 0]])
            if self.features:
                rows.append(published[owner].features[there[there >= 0]])  # type: ignore[index]
        return {
            "needed": needed,
            "known": np.packbits(known),
            "degree": np.concatenate(degree),
            **(self.travelling.pack(stacked(rows)) if self.features else {}),
        }

    def _spread(self, rows: Features, there: Array) -> Features:
        """Rows of those that are known among all, zeros elsewhere."""
        if there.all():
            return rows
        if isinstance(rows, np.ndarray):
            spread = np.zeros((len(there), self.coding.width), np.float32)
            spread[there] = rows
            return spread
        counts = np.zeros(len(there), np.int64)
        counts[there] = np.diff(rows.indptr)
        pointers = np.concatenate([[0], np.cumsum(counts)])
        return sparse.csr_matrix((rows.data, rows.indices, pointers), shape=(len(there), self.coding.width))


class _Published:
    """One client's statistics, to be looked up by place."""

    def __init__(self, setup: HaloSetup, statistics: Arrays) -> None:
        self._boundary = boundary = set_bits(statistics["boundary"])
        self.degree = statistics["degree"]
        self.features = setup.travelling.unpack(statistics, len(boundary)) if setup.features else None

    def position(self, place: Indices) -> Indices:
        """Rows of nodes among what was published, int64 [nodes]; -1 for what was not."""
        at = np.searchsorted(self._boundary, place)
        there = at < len(self._boundary)
        there[there] = self._boundary[at[there]] == place[there]
        return np.where(there, at, -1)


def _bits(places: list[Indices], count: int) -> Array:
    """A bit for each of so many nodes, set at all places that there are: what `np.packbits` makes of marks."""
    bits = np.zeros(-(-count // 8), np.uint8)
    for place in places:
        inside = place[place < count]
        np.bitwise_or.at(bits, inside >> 3, np.uint8(128) >> (inside & 7).astype(np.uint8))
    return bits


def halo_of(shard: NodeShard) -> Halo:
    """Return the addresses of a shard's neighbours elsewhere."""
    return Halo(shard.halo_owner.astype(np.int64), shard.halo_place.astype(np.int64))


def thinned(shard: NodeShard, most: int) -> NodeShard:
    """The shard with at most so many neighbours elsewhere per own node, spread evenly over their order; 0 = all.

    The choice depends on nothing but the shard, so that it is the same whenever it is made.
    """
    row = np.repeat(np.arange(shard.own), shard.degree)
    cut = shard.senders >= shard.own
    counts = np.bincount(row[cut], minlength=shard.own)
    if not most or counts.max(initial=0) <= most:
        return shard
    rank = np.zeros(len(row), np.int64)
    rank[cut] = ranges(np.zeros(shard.own, np.int64), counts)
    share = counts[row]
    # Of n the k-th stays where (k * most) mod n is below most: evenly spread, exactly `most` of them.
    kept = ~cut | (share <= most) | ((rank * most) % np.maximum(share, 1) < most)
    return without_edges(shard, kept)


def inside(shard: NodeShard) -> NodeShard:
    """The shard without its neighbours elsewhere."""
    return without_edges(shard, shard.senders < shard.own)


def without_edges(shard: NodeShard, kept: Array) -> NodeShard:
    """The shard with some of its stored edges, bool [edges], and the halo that they leave."""
    row = np.repeat(np.arange(shard.own), shard.degree)[kept]
    senders = shard.senders[kept]
    sending = np.unique(senders[senders >= shard.own])
    number = np.concatenate([np.arange(shard.own), np.full(shard.halo, -1)])
    number[sending] = shard.own + np.arange(len(sending))
    return replace(
        shard,
        pointers=np.concatenate([[0], np.cumsum(np.bincount(row, minlength=shard.own))]),
        senders=number[senders].astype(np.int32),
        edge_rows=taken(shard.edge_rows, kept),
        halo_owner=shard.halo_owner[sending - shard.own],
        halo_place=shard.halo_place[sending - shard.own],
    )
