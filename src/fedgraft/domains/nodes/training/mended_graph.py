"""Nodes that a client makes up for neighbours that it cannot see, and its part of the graph mended by them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from fedgraft.contracts.values import Halo, Indices
from fedgraft.domains.edge_data.edge_rows import EdgeRows, taken
from fedgraft.domains.examples import Features
from fedgraft.domains.nodes.base.features import FeatureRows
from fedgraft.domains.nodes.base.historical_embeddings import States
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.neighbour_sampling import Hop, Neighbourhoods, Reach, scattered
from fedgraft.domains.nodes.training.neighgen import WIDTHS, Generator, generator_of
from fedgraft.errors import DivergedError, WireError
from fedgraft.nn import flops
from fedgraft.nn.layers import device_of
from fedgraft.nn.propagate import Sparse
from fedgraft.wire.layouts import VARIABLE, Arrays, Layout, Spec

MATCHED: Final = 1024
"""Most own nodes that what is generated for nodes of others is held against; ours, so that a step's cost is bounded."""
_HASHES: Final = 2.0**64


@dataclass(eq=False)
class Part:
    """The data that a client's part of the graph is mended from.

    Args:
        own: how many nodes.
        receivers: int64 [edges], of its edges, ascending; senders: int64 [edges]; edge_rows: what they carry.
        features: float32 [own, f], dense or CSR; rows: the same, to be multiplied.
        label: int64 [own].
        around: neighbourhoods.
        offered: int64 [offered], own nodes whose embeddings others may pull, ascending.
        matched: int64 [matched], own nodes that what is generated for others' is held against; theirs: their features.
        squares: float32 [own], of their features, summed.
        mended: what the generator was, the part with its neighbours, and what operations these took.
        sure: whether that is so for the model that was loaded last, whose generator no longer learns.
    """

    own: int
    receivers: Indices
    senders: Indices
    features: Features
    rows: FeatureRows
    label: Indices
    around: Neighbourhoods
    offered: Indices
    matched: Indices
    theirs: Tensor | Sparse
    squares: Tensor
    edge_rows: EdgeRows | None = None
    mended: tuple[object, Any, int] = (None, None, 0)
    sure: bool = False


@dataclass(frozen=True)
class Mending:
    """Training of a generator of neighbours, and mending of a client's part of the graph with it.

    Source: Zhang et al., "FedSage+", NeurIPS 2021, and its published code.
    Differs: see the sharing method `fedsage_plus`.

    Args:
        most: most neighbours generated for a node.
        hidden: share of its nodes that a client hides from itself.
        elsewhere: most nodes of others whose embeddings a client pulls, and most of its own whose it publishes.
    """

    most: int
    hidden: float
    elsewhere: int

    # --- what clients exchange --------------------------------------------------------------------------------------

    @property
    def widths(self) -> tuple[int, ...]:
        """Tuple of int, the widths of the embeddings that clients exchange."""
        return WIDTHS[-1:]

    @property
    def statistics_layout(self) -> Layout:
        """`Layout` of the number of nodes that a client offers."""
        return Layout((Spec("offered", "uint32", (1,), "sizes"),))

    @property
    def combined_layout(self) -> Layout:
        """`Layout` of which of its offered nodes others want, and of how many nodes of others it pulls."""
        return Layout((Spec("needed", "uint8", (VARIABLE,)), Spec("told", "uint32", (1,))))

    def statistics(self, shard: NodeShard) -> Arrays:
        """Return what a client publishes."""
        return {"offered": np.array([min(shard.own, self.elsewhere)], np.uint32)}

    def check(self, statistics: Arrays) -> None:
        """Raise `WireError` for what no client can have published."""
        if (offered := int(statistics["offered"][0])) > self.elsewhere:
            raise WireError(f"{offered} nodes offered where at most {self.elsewhere} can be")

    def halos(self, statistics: Mapping[int, Arrays]) -> dict[int, tuple[int, Halo]]:
        """Return {client: (how many nodes it offers, whose embeddings it pulls)}, spread evenly over all others."""
        counts = {client: int(each["offered"][0]) for client, each in statistics.items()}
        owner = np.repeat(np.fromiter(counts, np.int64), list(counts.values()))
        place = np.concatenate([np.arange(count) for count in counts.values()])
        halos = {}
        for client, count in counts.items():
            others = np.flatnonzero(owner != client)
            pulled = min(self.elsewhere, len(others))
            # Each begins elsewhere, so that all together hear of as many nodes as there are.
            chosen = others[np.sort((client + np.arange(pulled) * len(others) // max(1, pulled)) % max(1, len(others)))]
            halos[client] = count, Halo(owner[chosen], place[chosen])
        return halos

    def combine(self, statistics: Mapping[int, Arrays]) -> dict[int, Arrays]:
        """Return what each client gets back."""
        halos = self.halos(statistics)
        needed = {client: np.zeros(count, bool) for client, (count, _) in halos.items()}
        for _, (owner, place) in halos.values():
            for each in np.unique(owner).tolist():
                needed[each][place[owner == each]] = True
        return {
            client: {"needed": np.packbits(needed[client]), "told": np.array([len(halo.owner)], np.uint32)}
            for client, (_, halo) in halos.items()
        }

    # --- a client's own part -----------------------------------------------------------------------------------------

    def begun(
        self, shard: NodeShard, rows: FeatureRows, around: Neighbourhoods, shared: Arrays
    ) -> tuple[Part, States, Indices]:
        """A client's part, without a halo; room for embeddings; which of the offered nodes others want, int64 [n]."""
        offered = np.sort(_some(shard.own, self.elsewhere))
        matched = np.sort(_some(shard.own, MATCHED))
        features = shard.features
        squares = features**2 if isinstance(features, np.ndarray) else features.multiply(features)
        part = Part(
            own=shard.own,
            receivers=np.repeat(np.arange(shard.own), shard.degree),
            senders=shard.senders.astype(np.int64),
            features=features,
            rows=rows,
            label=shard.label,
            around=around,
            offered=offered,
            matched=matched,
            theirs=rows.rows(matched),
            squares=torch.from_numpy(np.asarray(squares.sum(1), np.float32).ravel()),
            edge_rows=shard.edge_rows,
        )
        pulled = int(shared["told"][0]) if shared else 0
        if pulled > self.elsewhere:  # room is made for them
            raise WireError(f"{pulled} nodes of others to pull where at most {self.elsewhere} can be")
        needed = np.flatnonzero(np.unpackbits(shared["needed"], count=len(offered))) if shared else offered[:0]
        return part, States(len(offered), pulled, self.widths), needed

    def note(self, generator: Generator, part: Part, states: States, needed: Indices, most: int, seed: int) -> None:
        """Remember embeddings of the own nodes that others want, as they are now."""
        if len(needed) and generator.learns:
            with torch.no_grad():
                z = self._embeddings(generator, part, part.around, part.offered[needed], most, seed)
            states.write(0, needed, z.numpy(force=True))

    def read(self, states: States, most: int, seed: int) -> Indices:
        """Return the slots whose embeddings a step of `most` nodes holds its generator against, int64 [n] ascending."""
        return np.sort(_some(len(states.known[0]) - states.own, most, seed))

    def mended(self, generator: Generator, part: Part) -> dict[str, Any]:
        """Return the fields of the part with generated neighbours behind its own nodes, by name."""
        everybody = np.arange(part.own)
        with torch.no_grad():
            z = self._embeddings(generator, part, part.around, everybody, 0, 0)
            counts = self._counts(generator.missing(z))
            lacking = np.flatnonzero(counts)
            made = _first(generator.neighbours(z[lacking], 0), counts[lacking]).numpy(force=True)
        owners = np.repeat(lacking, counts[lacking])
        if not len(owners):
            return {}
        own, features = part.own + len(owners), part.features
        if isinstance(features, np.ndarray):
            rows = FeatureRows(np.concatenate([features, made]), features[:0])
        else:
            rows = FeatureRows(sparse.vstack([features, sparse.csr_matrix(made)], format="csr"), features[:0])
        return {
            "features": rows,
            "around": _joined(part.receivers, part.senders, part.own, owners, part.edge_rows),
            "own": own,
            "label": np.concatenate([part.label, np.full(len(owners), -1)]),
            "known": np.ones(own, bool),
        }

    # --- training ----------------------------------------------------------------------------------------------------

    def losses(
        self, model: nn.Module, part: Part, states: States, nodes: Indices, most: Sequence[int], seed: int
    ) -> Tensor:
        """Return the losses of some nodes: of how many neighbours each lacks, of their features, and of its class.

        Every one also gets the loss of what is generated for others' nodes, so that its mean is added once.

        Args:
            model: with a generator, which makes neighbours for all that these nodes are computed from, but for those
                that only the draw with generated neighbours reaches, where nodes have more than `most`.
            part: the client's.
            states: embeddings of others, as it pulled them last.
            nodes: int64 [n], own nodes.
            most: most neighbours of a node that take part, per layer of the model.
            seed: where noise comes from, and which nodes are hidden.
        """
        generator, device = generator_of(model), device_of(model)
        hidden = scattered(np.arange(part.own), seed) < self.hidden * _HASHES
        hidden[nodes] = False
        kept = ~hidden[part.receivers] & ~hidden[part.senders]
        edges, carried = (part.receivers[kept], part.senders[kept], part.own), taken(part.edge_rows, kept)
        impaired = _joined(*edges, carried=carried)
        hops = _hops(impaired, part.own, nodes, most, seed)
        read = hops[0].receivers  # the nodes themselves come first
        z = self._embeddings(generator, part, impaired, read, most[0], seed)
        guessed = generator.missing(z)
        count, of, lost = _lost(part, nodes, hidden)
        counts = self._counts(guessed)
        lacking = counts > 0
        lacking[: len(nodes)] |= count > 0
        made = generator.neighbours(z[torch.from_numpy(lacking)], seed)
        if counts.any():
            owners = np.repeat(read, counts)
            hops = _hops(_joined(*edges, owners, carried), part.own + len(owners), nodes, most, seed)
        inputs, hops = _inputs(part, hops, _first(made, counts[lacking])).to(device), _on(hops, device)
        label = torch.from_numpy(part.label[nodes]).to(device)
        losses = nn.functional.cross_entropy(model(inputs, hops, None), label, reduction="none")
        truth = torch.from_numpy(count.astype(np.float32)).to(device)
        losses = losses + nn.functional.smooth_l1_loss(guessed[: len(nodes)], truth, reduction="none")
        if len(lost):
            short = np.flatnonzero(count)  # of the nodes
            pairs = np.zeros((len(nodes), len(lost)), bool)
            pairs[of, np.arange(len(lost))] = True
            theirs = made[torch.from_numpy((np.cumsum(lacking) - 1)[short])]
            near = _nearest(theirs, part.rows.rows(lost), part.squares[lost], pairs[short])
            losses = losses.index_add(0, torch.from_numpy(short).to(device), near)
        pulled = self._pulled(states, len(nodes), seed)
        if len(pulled):
            foreign = generator.neighbours(pulled.to(device), seed)
            losses = losses + _nearest(foreign, part.theirs, part.squares[part.matched]).mean()
        return losses

    def _embeddings(
        self, generator: Generator, part: Part, around: Neighbourhoods, nodes: Indices, most: int, seed: int
    ) -> Tensor:
        hops = _hops(around, part.own, nodes, (most,) * len(WIDTHS), seed)
        device = device_of(generator)
        return generator.encode(_inputs(part, hops).to(device), _on(hops, device))

    def _counts(self, guessed: Tensor) -> Indices:
        """Return how many neighbours nodes are given, int64 [nodes]. Raises `DivergedError` where that diverged."""
        if guessed.isnan().any():
            raise DivergedError("training diverged: the generator's counts of neighbours are not finite")
        return guessed.detach().round().clamp(max=self.most).long().numpy(force=True)

    def _pulled(self, states: States, most: int, seed: int) -> Tensor:
        """Return embeddings of others' nodes, at most so many, float32 [pulled, width]."""
        known = np.flatnonzero(states.known[0][states.own :]) + states.own
        chosen = known[_some(len(known), most, seed)]
        return torch.from_numpy(states.rows[0][chosen])


def _some(count: int, most: int, seed: int = 0) -> Indices:
    """At most so many of some numbers from 0, the same whenever `seed` is."""
    if count <= most:
        return np.arange(count)
    return np.argsort(scattered(np.arange(count), seed), kind="stable")[:most]


def _hops(around: Neighbourhoods, count: int, nodes: Indices, most: Sequence[int], seed: int) -> list[Hop]:
    """Layers that end at some of `count` nodes, everything computed anew."""
    return around.around(nodes, len(most), Reach([np.ones(count, bool)] * len(most), most, True, seed))


def _inputs(part: Part, hops: Sequence[Hop], made: Tensor | None = None) -> Tensor | Sparse:
    """Features of the first hop's senders, those of nodes behind the own ones as they were made."""
    senders = np.concatenate([hops[0].fresh, hops[0].stored])
    real = senders < part.own
    rows = part.rows.rows(senders[real])
    if real.all() or made is None:
        return rows
    dense = rows.matrix.tensor.to_dense() if isinstance(rows, Sparse) else rows
    order = np.empty(len(senders), np.int64)
    order[real] = np.arange(len(dense))
    order[~real] = len(dense) + senders[~real] - part.own
    return torch.cat([dense.to(made.device), made]).index_select(0, torch.from_numpy(order).to(made.device))


def _on(hops: Sequence[Hop], device: torch.device) -> list[Hop]:
    return [hop.to(device) for hop in hops]


def _joined(
    receivers: Indices, senders: Indices, own: int, owners: Indices | None = None, carried: EdgeRows | None = None
) -> Neighbourhoods:
    """Edges in order of receivers, and one more node behind the own ones for each of `owners`, joined to it.

    Where edges carry anything, those to the new nodes carry zeros, go along, and weigh 1.
    """
    owners = senders[:0] if owners is None else owners
    new = own + np.arange(len(owners))
    to, by = np.concatenate([receivers, owners, new]), np.concatenate([senders, new, owners])
    order = np.argsort(to, kind="stable")
    count = own + len(owners)
    edges = np.concatenate([[0], np.cumsum(np.bincount(to, minlength=count))]), by[order].astype(np.int32)
    features, label = np.zeros((count, 0), np.float32), np.full(count, -1)
    rows = None if carried is None else _with_zeros(carried, 2 * len(owners)).take(order)
    shard = NodeShard.unsplit("mended", np.empty(count, object), features, label, edges, edge_rows=rows)
    return Neighbourhoods(shard)


def _with_zeros(carried: EdgeRows, count: int) -> EdgeRows:
    """What edges carry, and behind them so many that carry zeros."""
    weight = None if carried.weight is None else np.ones(count, np.float32)
    zeros = EdgeRows(np.zeros((count, carried.width), np.float32), np.ones(count, bool), np.full(count, -1), weight)
    return EdgeRows.stacked([carried, zeros])


def _first(made: Tensor, counts: Indices) -> Tensor:
    """The first so many of each node's generated neighbours, one after another, [sum of counts, width]."""
    return made[torch.from_numpy(np.arange(made.shape[1]) < counts[:, None])]


def _lost(part: Part, nodes: Indices, hidden: NDArray[np.bool_]) -> tuple[Indices, Indices, Indices]:
    """Return how many neighbours of each node are hidden; of each such edge the node's number, and the neighbour."""
    number = np.full(part.own, -1)
    number[nodes] = np.arange(len(nodes))
    edges = np.flatnonzero(hidden[part.senders] & (number[part.receivers] >= 0))
    of = number[part.receivers[edges]]
    return np.bincount(of, minlength=len(nodes)), of, part.senders[edges]


def _nearest(made: Tensor, rows: Tensor | Sparse, squares: Tensor, pairs: NDArray[np.bool_] | None = None) -> Tensor:
    """Squared distance of what was made for nodes to the nearest row, [nodes], mean over each node's neighbours.

    `made` is [nodes, most, width], `rows` [rows, width], `squares` [rows], of their entries, summed; `pairs`, bool
    [nodes, rows], says which rows are a node's to be near to; None for all.
    """
    nodes, most, width = made.shape
    rows, squares = rows.to(made.device), squares.to(made.device)
    flat = made.reshape(-1, width)
    if isinstance(rows, Sparse):
        products = (rows @ flat.t().contiguous()).t()
    else:
        flops.count((1 + torch.is_grad_enabled()) * flat.numel() * len(rows))
        products = flat @ rows.t()
    distances = (flat.square().sum(1, keepdim=True) - 2 * products + squares).view(nodes, most, -1)
    if pairs is not None:
        distances = distances.masked_fill(~torch.from_numpy(pairs).to(made.device)[:, None], torch.inf)
    return distances.amin(2).mean(1)
