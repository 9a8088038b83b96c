"""Sums of rows over edges between clients, by way of the server: what averages over all neighbours lack at a client.

1. A client publishes whose nodes its own are joined to, and by how many edges each.
2. The server adds these numbers up, and tells each client the nodes elsewhere that at least so many nodes of others are
   joined to. What would be a sum of fewer stays where it is.
3. In each hop a client publishes, for each of those nodes, the sum of its own nodes' rows as they are after the hops
   before; the server adds up what several clients published of a node, and tells its owner the sum and of how many.

As FedGCN has it (`neighbour_sums`), hop by hop, for means, and with a least number of nodes behind each sum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Features, stacked
from fedgraft.domains.nodes.base.feature_coding import FeatureCoding
from fedgraft.domains.nodes.base.shards import NodeShard, each_once
from fedgraft.domains.nodes.training.neighbour_sums import added, adjacency, as_features
from fedgraft.domains.notes import LOG
from fedgraft.errors import WireError
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout, Spec
from fedgraft.wire.lazy import Made

PREFIX: Final = "sums."
OWNER, PLACE, JOINED = "sums.owner", "sums.place", "sums.joined"
"""uint32 [halo] each: whose node one elsewhere is, which of its owner's, and to how many own nodes it is joined.
"""
WEIGHT: Final = "sums.weight"
"""float32 [halo]: the weights of the edges to these, where edges have some."""
TOLD: Final = "sums.told"
"""A bit for each node of the halo: whether a sum is to be told of it, or is."""
MOST: Final = (1 << 32) - 1


class HopSums(NamedTuple):
    """The rows of neighbours elsewhere that a hop adds: `rows` [own, f], and of how many, `joined`, float32 [own].

    By weight where edges have some.
    """

    rows: Features
    joined: NDArray[np.float32]


@dataclass(frozen=True)
class InputSums:
    """The exchange over so many hops; `coding` is that of features, `least` the fewest nodes behind a sum, >= 1.

    `weighted` says whether edges have weights, by which rows are added up.
    """

    coding: FeatureCoding
    hops: int
    least: int
    weighted: bool = False

    @property
    def statistics_layout(self) -> Layout:
        """Layout of what a client publishes first."""
        return Layout(
            (*(Spec(name, "uint32", (VARIABLE,), "rows") for name in (OWNER, PLACE, JOINED)), *self._weights(""))
        )

    @property
    def further_layout(self) -> Layout:
        """Layout of what it publishes in each hop."""
        return Layout((Spec(TOLD, "uint8", (VARIABLE,), "rows"), *self._specs("")))

    @property
    def combined_layout(self) -> Layout:
        """Layout of what it gets back, of all hops so far; later ones are empty."""
        specs = [Spec(TOLD, "uint8", (VARIABLE,))]
        for hop in range(1, self.hops + 1):
            specs += [Spec(f"{name}.{hop}", "uint32", (VARIABLE,)) for name in (PLACE, JOINED)]
            specs += [*self._weights(f".{hop}"), *self._specs(f".{hop}")]
        return Layout(tuple(specs))

    # --- clients -----------------------------------------------------------------------------------------------------

    def statistics(self, shard: NodeShard) -> Arrays:
        """Return what a client publishes first; of neighbours each counts once, as `least` asks for different ones."""
        shard = each_once(shard)
        cut = shard.senders >= shard.own
        halo = shard.senders[cut] - shard.own
        joined = np.bincount(halo, minlength=shard.halo)
        weight = np.bincount(halo, shard.edge_weight[cut], minlength=shard.halo).astype(np.float32)
        return {
            **({WEIGHT: weight} if self.weighted else {}),
            OWNER: shard.halo_owner.astype(np.uint32),
            PLACE: shard.halo_place.astype(np.uint32),
            JOINED: joined.astype(np.uint32),
        }

    def further(self, shard: NodeShard, rows: Features, shared: Arrays) -> Arrays:
        """Return the sums of a client's rows, [own, f], for the nodes elsewhere of which it is to tell."""
        if len(shared[TOLD]) != -(-shard.halo // 8):
            raise WireError(f"{len(shared[TOLD])} bytes of marks of {shard.halo} nodes elsewhere")
        told = np.flatnonzero(np.unpackbits(shared[TOLD], count=shard.halo))
        shard = each_once(shard)
        sums = adjacency(shard)[:, shard.own + told].T.tocsr() @ rows
        return {TOLD: shared[TOLD], **self._packed(sums, "")}

    def sums(self, own: int, shared: Arrays) -> list[HopSums | None]:
        """Return what each hop adds at `own` nodes; None where nothing was told of it."""
        return [self._sums(own, shared, hop) for hop in range(1, self.hops + 1)]

    def _sums(self, own: int, shared: Arrays, hop: int) -> HopSums | None:
        if not len(place := shared.get(f"{PLACE}.{hop}", _NOTHING).astype(np.int64)):
            return None
        joined = shared[f"{WEIGHT if self.weighted else JOINED}.{hop}"]
        if len(joined) != len(place):
            raise WireError(f"{len(joined)} numbers of neighbours at {len(place)} nodes")
        rows = self._unpacked(shared, f".{hop}", len(place))
        there = place < own  # another client's nonsense must not cost this one its part in the run
        count = np.zeros(own, np.float32)
        count[place[there]] = joined[there]
        return HopSums(as_features(added(place[there], own, [rows[there]]), self.coding.is_sparse), count)

    def widened(self, shared: Arrays, shard: NodeShard, own: int, rows: Sequence[Features]) -> Arrays:
        """Return what was told with sums for new nodes, which follow `own` ones; `rows` are the halo's in each hop."""
        whole = each_once(shard)
        edges = adjacency(whole)[own:, whole.own :]
        new = np.flatnonzero(np.diff(edges.indptr) >= self.least)
        edges = edges[new]
        counts = {
            PLACE: (own + new).astype(np.uint32),
            JOINED: np.diff(edges.indptr).astype(np.uint32),
            WEIGHT: np.asarray(edges.sum(axis=1), np.float32).ravel(),
        }
        arrays = {**shared}
        for hop, each in enumerate(rows, start=1):
            names = [f"{name}.{hop}" for name in (PLACE, JOINED, *([WEIGHT] if self.weighted else []))]
            place = shared.get(names[0], _NOTHING)
            known = self._unpacked(shared, f".{hop}", len(place)) if len(place) else self.coding.empty(0)
            for name in names:
                told = counts[name.rpartition(".")[0]]
                arrays[name] = np.concatenate([shared.get(name, told[:0]), told])
            sums = as_features(edges @ each, self.coding.is_sparse)
            arrays |= self._packed(stacked([known, sums]), f".{hop}")
        return arrays

    # --- the server --------------------------------------------------------------------------------------------------

    def check(self, statistics: Arrays) -> None:
        """Raise `WireError` for what no client can have published first."""
        owner, place, joined = (statistics[name] for name in (OWNER, PLACE, JOINED))
        weight = statistics[WEIGHT] if self.weighted else np.ones(len(owner))
        # In few bits a small weight beside large ones is 0.
        if len(weight) != len(owner) or not ((weight >= 0) & np.isfinite(weight)).all():
            raise WireError(f"{len(weight)} weights of {len(owner)} nodes, or some that are not finite and at least 0")
        if not len(owner) == len(place) == len(joined):
            raise WireError(f"{len(owner)} owners of nodes at {len(place)} places that {len(joined)} are joined to")
        if (np.diff(owner.astype(np.int64) << 32 | place) <= 0).any():
            raise WireError("addresses must ascend, each node once")
        if not joined.all():
            raise WireError("a node elsewhere that no own one is joined to")

    def check_further(self, first: Arrays, further: Arrays) -> None:
        """Raise `WireError` for what no client can have published in a hop, that published `first` before."""
        nodes, marks = len(first[OWNER]), np.unpackbits(further[TOLD])
        if len(further[TOLD]) != -(-nodes // 8) or marks[nodes:].any():
            raise WireError(f"{len(further[TOLD])} bytes of marks of {nodes} nodes elsewhere")
        self._unpacked(further, "", int(marks.sum()))

    def combine(self, statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
        """Return what each client gets back of all hops that are published, made when it is asked for."""
        hops = range(1, self.hops + 1)
        published = [hop for hop in hops if all(f"{TOLD}.{hop}" in each for each in statistics.values())]
        told = self._told(statistics)
        if not published:
            _note(statistics, told, self.least)
        rows = {hop: self._of_hop(statistics, hop) for hop in published}

        def answer(client: int) -> Arrays:
            marks = np.packbits(told[client]) if len(published) < self.hops else np.zeros(0, np.uint8)
            arrays = {TOLD: marks}
            for hop in hops:
                arrays |= self._combined(client, hop, rows.get(hop, []))
            return arrays

        return Made(statistics, answer)

    def _told(self, statistics: Mapping[int, Arrays]) -> dict[int, NDArray[np.bool_]]:
        """{client: bool [halo]}, the nodes elsewhere that at least `least` nodes of others are joined to."""
        addresses = [each[OWNER].astype(np.int64) << 32 | each[PLACE] for each in statistics.values()]
        joined = [np.where(each[OWNER] == client, 0, each[JOINED]) for client, each in statistics.items()]
        _, number = np.unique(np.concatenate(addresses), return_inverse=True)
        enough = np.bincount(number, np.concatenate(joined)) >= self.least
        ends = np.cumsum([len(each) for each in addresses])[:-1]
        return dict(zip(statistics, np.split(enough[number], ends), strict=True))

    def _of_hop(self, statistics: Mapping[int, Arrays], hop: int) -> list["_Published"]:
        """What each client told in a hop."""
        found = []
        for client, each in statistics.items():
            told = np.flatnonzero(np.unpackbits(each[f"{TOLD}.{hop}"], count=len(each[OWNER])))
            owner, place, joined = (each[name][told].astype(np.int64) for name in (OWNER, PLACE, JOINED))
            weight = each[WEIGHT][told].astype(np.float64) if self.weighted else joined
            found.append(_Published(client, owner, place, joined, weight, self._unpacked(each, f".{hop}", len(told))))
        return found

    def _combined(self, client: int, hop: int, published: Sequence["_Published"]) -> Arrays:
        """Return the sums of one hop at a client's nodes, of those that at least `least` nodes stand behind."""
        mine = [(each, np.flatnonzero(each.owner == client)) for each in published if each.client != client]
        places = np.concatenate([_NOTHING.astype(np.int64), *(each.place[rows] for each, rows in mine)])
        place, number = np.unique(places, return_inverse=True)
        counts = np.concatenate([np.zeros(0), *(each.joined[rows] for each, rows in mine)])
        joined = np.bincount(number, counts, minlength=len(place))
        weights = np.concatenate([np.zeros(0), *(each.weight[rows] for each, rows in mine)])
        weight = np.bincount(number, weights, minlength=len(place))
        kept = np.flatnonzero((joined >= self.least) & (joined <= MOST))
        total = added(number, len(place), [self.coding.empty(0), *(each.rows[rows] for each, rows in mine)])[kept]
        return {
            f"{PLACE}.{hop}": place[kept].astype(np.uint32),
            f"{JOINED}.{hop}": joined[kept].astype(np.uint32),
            **({f"{WEIGHT}.{hop}": weight[kept].astype(np.float32)} if self.weighted else {}),
            **self._packed(total, f".{hop}"),
        }

    # --- rows as arrays ----------------------------------------------------------------------------------------------

    def _weights(self, suffix: str) -> list[Spec]:
        return [Spec(f"{WEIGHT}{suffix}", "float32", (VARIABLE,), "rows")] if self.weighted else []

    def _specs(self, suffix: str) -> list[Spec]:
        return [Spec(f"{PREFIX}{spec.name}{suffix}", spec.dtype, spec.shape, spec.tells) for spec in self.coding.specs]

    def _packed(self, rows: Features, suffix: str) -> Arrays:
        packed = self.coding.pack(as_features(rows, self.coding.is_sparse))
        return {f"{PREFIX}{name}{suffix}": array for name, array in packed.items()}

    def _unpacked(self, arrays: Arrays, suffix: str, rows: int) -> Features:
        coded = {spec.name: arrays[f"{PREFIX}{spec.name}{suffix}"] for spec in self.coding.specs}
        return self.coding.unpack(coded, rows)


class _Published(NamedTuple):
    """A client's rows [told, f] of one hop: [told] each, whose nodes they are for, which, of how many, by weight."""

    client: int
    owner: Indices
    place: Indices
    joined: Indices
    weight: Array
    rows: Features


def _note(statistics: Mapping[int, Arrays], told: Mapping[int, NDArray[np.bool_]], least: int) -> None:
    """Say how many contributions stay home."""
    home = sum(int(each[JOINED][~told[client]].sum(dtype=np.int64)) for client, each in statistics.items())
    every = sum(int(each[JOINED].sum(dtype=np.int64)) for each in statistics.values())
    if home:
        LOG.warning(
            f"task.share_sums: of {every:,} ends of edges between clients {home:,} stay home, at nodes with fewer than "
            f"task.least = {least} neighbours elsewhere."
        )


_NOTHING: Final = np.zeros(0, np.uint32)
