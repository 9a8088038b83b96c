"""Answers smoothed over the edges between clients, by way of the server.

Before training, clients tell which of their nodes have neighbours elsewhere, and whose these are. After it, in each
hop, they tell a row for each such node and are sent, for each, the mean row of its neighbours elsewhere. An edge counts
where both of its ends tell of it: nobody learns of a node that its owner has not joined to his. Boundaries of all
clients, joined, say which rows the mean of each row's neighbours elsewhere is of.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft import wire
from fedgraft.contracts.abilities.smoothing import Boundary
from fedgraft.contracts.values import Indices
from fedgraft.engine import boundary_codec
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.halo_sums import MOST_COUNT
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.exchange import Exchange, Replies
from fedgraft.engine.server.limits import Limits
from fedgraft.errors import WireError, printable
from fedgraft.wire import Message
from fedgraft.wire.layouts import Array, Arrays, Layout

Doubles: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CrossClientEdges:
    """All boundaries, joined.

    Args:
        own: int64 [clients], how many nodes each has; 0 for one that has not told.
        sizes: int64 [clients], how many of them are in its boundary.
        pointers: int64 [rows + 1], of a CSR of edges between rows; rows are nodes of boundaries, client by client.
        senders: int64 [edges], its columns; every edge both ways.
        weights: float64 [edges], as its receiver says; none where nobody tells weights, and all edges count alike.
    """

    own: Indices
    sizes: Indices
    pointers: Indices
    senders: Indices
    weights: Doubles = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, boundaries: Mapping[int, Boundary], clients: int) -> "CrossClientEdges":
        """Join the boundaries of {client: boundary}; there may be none."""
        own, sizes = np.zeros(clients, np.int64), np.zeros(clients, np.int64)
        if not boundaries:
            return cls(own, sizes, np.zeros(1, np.int64), np.zeros(0, np.int64))
        for client, boundary in boundaries.items():
            own[client], sizes[client] = boundary.own, len(boundary.nodes)
        first, rows = np.cumsum(own) - own, int(sizes.sum())
        in_order = [boundary for _, boundary in sorted(boundaries.items())]
        nodes = np.concatenate([first[client] + boundary.nodes for client, boundary in sorted(boundaries.items())])
        receiver = np.repeat(np.arange(rows), np.concatenate([boundary.counts for boundary in in_order]))
        owner, place = (
            np.concatenate([getattr(boundary, name) for boundary in in_order]) for name in ("owner", "place")
        )
        weight = np.concatenate([_weights(boundary) for boundary in in_order])
        there = np.flatnonzero(owner < clients)
        there = there[place[there] < own[owner[there]]]
        receiver, wanted = receiver[there], first[owner[there]] + place[there]
        sender = np.minimum(np.searchsorted(nodes, wanted), max(rows - 1, 0))
        match = nodes[sender] == wanted if rows else np.zeros(0, bool)
        receiver, sender, weight = receiver[match], sender[match], weight[there][match]
        both = np.isin(receiver * rows + sender, sender * rows + receiver)
        edges = sparse.csr_matrix((weight[both], (receiver[both], sender[both])), shape=(rows, rows))
        edges.sort_indices()
        told = any(boundary.weight is not None for boundary in in_order)
        weights = {"weights": edges.data} if told else {}
        return cls(own, sizes, edges.indptr.astype(np.int64), edges.indices.astype(np.int64), **weights)

    def fits(self, clients: int) -> bool:
        """Return whether that is what boundaries of so many clients may be."""
        rows, edges = len(self.pointers) - 1, len(self.senders)
        alike = len(self.own) == len(self.sizes) == clients and self.sizes.sum() == rows
        counted = alike and (self.sizes >= 0).all() and (self.sizes <= self.own).all()
        listed = counted and self.pointers[0] == 0 and (np.diff(self.pointers) >= 0).all()
        among = listed and self.pointers[-1] == edges and ((self.senders >= 0) & (self.senders < rows)).all()
        weighs = len(self.weights) in (0, edges) and ((self.weights > 0) & np.isfinite(self.weights)).all()
        return bool(among and weighs)

    @cached_property
    def starts(self) -> Indices:
        """int64 [clients]: the first row of each."""
        starts: Indices = np.cumsum(self.sizes) - self.sizes
        return starts

    def of_client(self, client: int) -> slice:
        """Return a client's rows."""
        return slice(int(self.starts[client]), int(self.starts[client] + self.sizes[client]))

    def means(self, rows: Array, known: Array) -> tuple[Array, Array]:
        """Return the mean of each row's known neighbours, float64 [rows, width], and bool [rows], whether it has any.

        Whole numbers add up to the same sums in any order, so that the means are the same on every machine; of weights
        those of a row are added one after the other.
        """
        weights = self.weights if len(self.weights) else np.ones(len(self.senders))
        edges = sparse.csr_matrix((weights, self.senders, self.pointers), shape=(len(rows),) * 2)
        count = edges @ known.astype(np.float64)
        total = edges @ (rows.astype(np.float64) * known[:, None])
        return total / np.where(count > 0, count, 1)[:, None], count > 0

    @cached_property
    def whole(self) -> sparse.csr_matrix:
        """int64 [rows, rows], how much each neighbour counts where rows are added up: 1, or 255ths of the largest."""
        counts = np.ones(len(self.senders), np.int64)
        if len(self.weights):
            counts = np.maximum(1, np.rint(self.weights * (MOST_COUNT / self.weights.max())).astype(np.int64))
        return sparse.csr_matrix((counts, self.senders, self.pointers), shape=(len(self.pointers) - 1,) * 2)


def _weights(boundary: Boundary) -> Doubles:
    return np.ones(len(boundary.place)) if boundary.weight is None else boundary.weight.astype(np.float64)


Means = tuple[Array, Array]
"""Float64 [rows, width], the mean of each row's known neighbours elsewhere, and bool [rows], whether it has any."""


class Hops:
    """Ask clients, one kind of message after the other; who fails has no part in what follows.

    Args:
        plan: what both ends agreed on.
        exchange: sends requests.
        limits: of messages.
        joined: all boundaries.
        round: that messages are of.
        clients: who take part.
    """

    def __init__(
        self,
        plan: Plan,
        exchange: Exchange,
        limits: Limits,
        joined: CrossClientEdges,
        round: int,
        clients: Iterable[int],
    ) -> None:
        self._plan, self._exchange, self._limits = plan, exchange, limits
        self._joined, self._round = joined, round
        self.clients = tuple(sorted(clients))
        self.failed: dict[int, str] = {}
        """{client: reason}."""
        self._rows = np.zeros((int(joined.sizes.sum()), plan.row_width), np.int8)
        self._known = np.zeros(len(self._rows), bool)

    def means(self, kind: str, orders: Mapping[int, Arrays]) -> Means:
        """Send {client: arrays}; return the means of the rows that are told."""
        for client, message in self._sent(kind, self._encoded(kind, orders)).messages.items():
            self._rows[self._joined.of_client(client)] = (message.arrays or {})["rows"]
        self._note_known()
        return self._joined.means(self._rows, self._known)

    def arrays(self, kind: str, orders: Mapping[int, Arrays]) -> list[Arrays]:
        """Send {client: arrays}; return the arrays that each answers."""
        replies = self._sent(kind, self._encoded(kind, orders))
        return [message.arrays or {} for message in replies.messages.values()]

    def tallies(self, orders: Mapping[int, Arrays]) -> Indices:
        """Send {client: arrays}; return all tallies together, int64 [choices, 2], or [0, 2] where nobody answers."""
        told = [each["tallies"].astype(np.int64) for each in self.arrays("tally", orders)]
        return np.asarray(np.sum(told, axis=0), np.int64) if told else np.zeros((0, 2), np.int64)

    def choose(self, choice: int) -> None:
        """Tell clients of the choice."""
        order = wire.encode(Message("choice", self._round, {"choice": float(choice)}), None, ("choice",))
        self._sent("choice", dict.fromkeys(self.clients, order))

    def most_bytes(self, client: int) -> int:
        """Return the most bytes that all this takes with a client, the best model on its way to it included."""
        hops = [*self._plan.hop_kinds, *(["tally"] if "sums" in self._plan.hop_kinds else [])]
        down = sum(self._most("request", kind, client) for kind in hops)
        down += self._limits.request_bytes("smooth") + self._limits.request_bytes("choice")
        return down + sum(self._reply_bytes(kind, client) for kind in ("smooth", *hops, "choice"))

    def _sent(self, kind: str, requests: Mapping[int, bytes]) -> Replies:
        """Exchange requests; note who fails or is refused."""
        limits = {client: self._reply_bytes(kind, client) for client in requests}
        replies = self._exchange.send(kind, self._round, requests, limits)
        refused = {client: _misfit(message, self._joined, client) for client, message in replies.messages.items()}
        replies = replies.without({client: why for client, why in refused.items() if why})
        self._lost(replies)
        return replies

    def _lost(self, replies: Replies) -> None:
        """Go on with those that have answered."""
        self.failed.update(replies.failed)
        self.clients = tuple(sorted(replies.messages))

    def _note_known(self) -> None:
        """Note whose rows are known: of those that still take part."""
        self._known[:] = False
        for client in self.clients:
            self._known[self._joined.of_client(client)] = True

    def _encoded(self, kind: str, orders: Mapping[int, Arrays]) -> dict[int, bytes]:
        """Requests as bytes; equal arrays are one object, and encoded once."""
        layout, encoded = Protocol.of(self._plan).request_layouts[kind], {}
        for arrays in orders.values():
            if id(arrays) not in encoded:
                encoded[id(arrays)] = wire.encode(Message(kind, self._round, arrays=arrays), layout)
        return {client: encoded[id(arrays)] for client, arrays in orders.items()}

    def _reply_bytes(self, kind: str, client: int) -> int:
        least = self._limits.reply_bytes("choice")  # an error's text always fits
        return max(least, self._most("reply", kind, client))

    def _most(self, way: str, kind: str, client: int) -> int:
        layouts = Protocol.of(self._plan).request_layouts if way == "request" else Protocol.of(self._plan).reply_layouts
        layout = layouts.get(kind, Layout(()))
        sizes = self._sizes(kind, client)
        most = Layout(tuple(replace(spec, shape=sizes.get(spec.name, spec.shape)) for spec in layout))
        return wire.message_bytes(
            layout, Protocol.of(self._plan).request_names.get(kind, ()) if way == "request" else (), most
        )

    def _sizes(self, kind: str, client: int) -> dict[str, tuple[int, ...]]:
        """{name: largest shape} of arrays without a fixed one, in messages of a kind."""
        nodes = int(self._joined.sizes[client])
        return {"rows": (nodes, self._plan.row_width), "known": (-(-nodes // 8),)}


def _misfit(message: Message, joined: CrossClientEdges, client: int) -> str:
    """Return why a reply is refused; "" for one that is not."""
    arrays = message.arrays or {}
    if "rows" in arrays and len(arrays["rows"]) != joined.sizes[client]:
        return f"told {len(arrays['rows'])} rows of a boundary of {joined.sizes[client]} nodes"
    if "tallies" in arrays and arrays["tallies"].max(initial=0) > joined.own[client]:
        return f"answers {arrays['tallies'].max()} of {joined.own[client]} nodes rightly"
    if not all(np.isfinite(array).all() for array in arrays.values()):
        return "sent sums that are not finite"
    return ""


@dataclass(frozen=True)
class Smoothed:
    """The outcome of the hops.

    Args:
        choice: the way to answer, chosen by validation.
        layer: what was fitted, if anything was.
        clients: those that know of both.
        failed: {client: reason}.
    """

    choice: int
    layer: Arrays = field(default_factory=dict)
    clients: tuple[int, ...] = ()
    failed: Mapping[int, str] = field(default_factory=dict)


def chosen(tallies: Indices) -> int:
    """Return the choice with the largest gain on validation, less half its standard error; the first where none gains.

    `tallies`, int64 [choices, 2], are how many examples each gains and loses beside the first. Gains and losses are
    independent signs under the hypothesis that there is no difference, so the standard error of their difference is
    the root of their sum (McNemar, 1947). On few examples a choice must gain several, or answers are left alone.
    """
    gained, lost = tallies[:, 0], tallies[:, 1]
    return int((gained - lost - np.sqrt(gained + lost) / 2).argmax())


class SmoothingExchange:
    """The server's end of it.

    Args:
        plan: what both ends agreed on.
        exchange: sends requests.
        limits: of replies.
        most_border: bytes of a client's reply with its boundary at most.
        hops: how clients are asked in a hop: each by itself, or for a sum.
    """

    def __init__(self, plan: Plan, exchange: Exchange, limits: Limits, most_boundary: int, hops: type[Hops]) -> None:
        self._plan, self._exchange, self._limits = plan, exchange, limits
        self._most_boundary, self._hops_of = most_boundary, hops

    def ask(self, clients: Sequence[int], left: int | None) -> tuple[CrossClientEdges, Mapping[int, str]]:
        """Ask clients for their boundaries; return these, joined, and {client: why it has no part in it}.

        `left` bytes may be spent; None = any number.
        """
        request = wire.encode(Message("border", 0))
        most = self._most_boundary if left is None else min(self._most_boundary, left // len(clients) - len(request))
        limit = max(most, self._limits.reply_bytes("choice"))
        replies = self._exchange.send("border", 0, dict.fromkeys(clients, request), dict.fromkeys(clients, limit))
        boundaries: dict[int, Boundary] = {}
        failed = dict(replies.failed)
        for client, message in replies.messages.items():
            try:
                boundaries[client] = boundary_codec.decode((message.arrays or {})["border"], client)
            except WireError as error:
                failed[client] = printable(str(error))
        return CrossClientEdges.of(boundaries, 1 + max(clients)), failed

    def most_bytes(self, joined: CrossClientEdges, clients: Sequence[int]) -> int:
        """Return the most bytes that smoothing takes, the best model on its way to the clients included."""
        hops = self._hops(joined, 0, clients)
        return sum(hops.most_bytes(client) for client in clients)

    def run(self, joined: CrossClientEdges, models: Mapping[int, Arrays], round: int) -> Smoothed:
        """Smooth the answers of {client: the best model behind the downlink's codec}; equal models are one object."""
        plan, hops = self._plan, self._hops(joined, round, models)
        means = hops.means("smooth", models)
        for kind in plan.hop_kinds[:-1]:
            means = hops.means(kind, self._orders(joined, hops, means))
        orders, layer = self._orders(joined, hops, means), Arrays()
        if plan.smoothing and plan.sums_layout.specs and hops.clients:
            layer = plan.smoothing.hop_layer(hops.arrays("sums", orders))
            orders = dict.fromkeys(hops.clients, layer)
        tallies = hops.tallies(orders)
        choice = chosen(tallies) if len(tallies) else 0
        hops.choose(choice)
        return Smoothed(choice, layer, hops.clients, hops.failed)

    def _hops(self, joined: CrossClientEdges, round: int, clients: Sequence[int] | Mapping[int, Arrays]) -> Hops:
        return self._hops_of(self._plan, self._exchange, self._limits, joined, round, clients)

    @staticmethod
    def _orders(joined: CrossClientEdges, hops: Hops, means: Means) -> dict[int, Arrays]:
        """{client: the means for its boundary}; which are known travels where not all are."""
        rows, there = means
        orders: dict[int, Arrays] = {}
        for client in hops.clients:
            part = joined.of_client(client)
            marks = np.zeros(0, np.uint8) if there[part].all() else np.packbits(there[part])
            orders[client] = {"rows": np.rint(rows[part]).astype(np.int8), "known": marks}
        return orders
