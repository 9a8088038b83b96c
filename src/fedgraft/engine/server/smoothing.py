"""Answers smoothed over the edges between clients, by way of the server.

Before training, clients tell which of their nodes have neighbours elsewhere, and whose these are. After it, in each
hop, they tell a row for each such node and are sent, for each, the mean row of its neighbours elsewhere. An edge counts
where both of its ends tell of it: nobody learns of a node that its owner has not joined to his.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft import wire
from fedgraft.contracts.smoothing import Border
from fedgraft.contracts.values import Indices
from fedgraft.engine import border_codec
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.exchange import Exchange, Replies
from fedgraft.engine.server.limits import Limits
from fedgraft.errors import WireError, printable
from fedgraft.wire import Message
from fedgraft.wire.layouts import Array, Arrays, Layout

Doubles: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Joined:
    """All borders, joined.

    Args:
        own: int64 [clients], how many nodes each has; 0 for one that has not told.
        sizes: int64 [clients], how many of them are in its border.
        pointers: int64 [rows + 1], of a CSR of edges between rows; rows are nodes of borders, client by client.
        senders: int64 [edges], its columns; every edge both ways.
        weights: float64 [edges], as its receiver says; none where nobody tells weights, and all edges count alike.
    """

    own: Indices
    sizes: Indices
    pointers: Indices
    senders: Indices
    weights: Doubles = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, borders: Mapping[int, Border], clients: int) -> "Joined":
        """Join the borders of {client: border}; there may be none."""
        own, sizes = np.zeros(clients, np.int64), np.zeros(clients, np.int64)
        if not borders:
            return cls(own, sizes, np.zeros(1, np.int64), np.zeros(0, np.int64))
        for client, border in borders.items():
            own[client], sizes[client] = border.own, len(border.nodes)
        first, rows = np.cumsum(own) - own, int(sizes.sum())
        in_order = [border for _, border in sorted(borders.items())]
        nodes = np.concatenate([first[client] + border.nodes for client, border in sorted(borders.items())])
        receiver = np.repeat(np.arange(rows), np.concatenate([border.counts for border in in_order]))
        owner, place = (np.concatenate([getattr(border, name) for border in in_order]) for name in ("owner", "place"))
        weight = np.concatenate([_weights(border) for border in in_order])
        there = np.flatnonzero(owner < clients)
        there = there[place[there] < own[owner[there]]]
        receiver, wanted = receiver[there], first[owner[there]] + place[there]
        sender = np.minimum(np.searchsorted(nodes, wanted), max(rows - 1, 0))
        match = nodes[sender] == wanted if rows else np.zeros(0, bool)
        receiver, sender, weight = receiver[match], sender[match], weight[there][match]
        both = np.isin(receiver * rows + sender, sender * rows + receiver)
        edges = sparse.csr_matrix((weight[both], (receiver[both], sender[both])), shape=(rows, rows))
        edges.sort_indices()
        told = any(border.weight is not None for border in in_order)
        weights = {"weights": edges.data} if told else {}
        return cls(own, sizes, edges.indptr.astype(np.int64), edges.indices.astype(np.int64), **weights)

    def fits(self, clients: int) -> bool:
        """Return whether that is what borders of so many clients may be."""
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


def _weights(border: Border) -> Doubles:
    return np.ones(len(border.place)) if border.weight is None else border.weight.astype(np.float64)


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
    """The server's end of it; a client's reply with its border has at most `most_border` bytes, others by `limits`."""

    def __init__(self, plan: Plan, exchange: Exchange, limits: Limits, most_border: int) -> None:
        self._plan, self._exchange, self._limits, self._most_border = plan, exchange, limits, most_border

    def ask(self, clients: Sequence[int], left: int | None) -> tuple[Joined, Mapping[int, str]]:
        """Ask clients for their borders; return these, joined, and {client: why it has no part in it}.

        `left` bytes may be spent; None = any number.
        """
        request = wire.encode(Message("border", 0))
        most = self._most_border if left is None else min(self._most_border, left // len(clients) - len(request))
        limit = max(most, self._limits.reply_bytes("choice"))
        replies = self._exchange.send("border", 0, dict.fromkeys(clients, request), dict.fromkeys(clients, limit))
        borders: dict[int, Border] = {}
        failed = dict(replies.failed)
        for client, message in replies.messages.items():
            try:
                borders[client] = border_codec.decode((message.arrays or {})["border"], client)
            except WireError as error:
                failed[client] = printable(str(error))
        return Joined.of(borders, 1 + max(clients)), failed

    def most_bytes(self, joined: Joined, clients: Sequence[int]) -> int:
        """Return the most bytes that smoothing takes, the best model on its way to the clients included."""
        return sum(self._most_of(joined, client) for client in clients)

    def run(self, joined: Joined, models: Mapping[int, bytes], round: int) -> Smoothed:
        """Smooth the answers of the models of {client: message with the model}."""
        rows = np.zeros((int(joined.sizes.sum()), self._plan.row_width), np.int8)
        known = np.zeros(len(rows), bool)
        failed: dict[int, str] = {}
        replies = self._sent("smooth", round, models, joined, rows, known, failed)
        for kind in self._plan.hop_kinds:
            means, there = joined.means(rows, known)
            requests = {client: self._means(joined, client, means, there, kind, round) for client in replies.messages}
            replies = self._sent(kind, round, requests, joined, rows, known, failed)
        layer: Arrays = {}
        if self._plan.smoothing and self._plan.sums_layout.specs and replies.messages:
            layer = self._plan.smoothing.hop_layer([message.arrays or {} for message in replies.messages.values()])
            order = wire.encode(Message("tally", round, arrays=layer), self._plan.request_layouts["tally"])
            replies = self._sent("tally", round, dict.fromkeys(replies.messages, order), joined, rows, known, failed)
        tallies = [(message.arrays or {})["tallies"].astype(np.int64) for message in replies.messages.values()]
        choice = chosen(np.sum(tallies, axis=0)) if tallies else 0
        order = wire.encode(Message("choice", round, {"choice": float(choice)}), None, ("choice",))
        replies = self._sent("choice", round, dict.fromkeys(replies.messages, order), joined, rows, known, failed)
        return Smoothed(choice, layer, tuple(sorted(replies.messages)), failed)

    def measure(self, clients: Sequence[int], round: int, charged: bool) -> Replies:
        """Have clients score their smoothed answers."""
        request = wire.encode(Message("smoothed", round))
        limits = dict.fromkeys(clients, self._limits.reply_bytes("smoothed"))
        return self._exchange.send("smoothed", round, dict.fromkeys(clients, request), limits, charged)

    def _sent(
        self,
        kind: str,
        round: int,
        requests: Mapping[int, bytes],
        joined: Joined,
        rows: Array,
        known: Array,
        failed: dict[int, str],
    ) -> Replies:
        """Exchange requests; note the rows that come, who is refused, and that the others' rows are not known."""
        limits = {client: self._reply_bytes(kind, joined, client) for client in requests}
        replies = self._exchange.send(kind, round, requests, limits)
        refused = {client: _misfit(message, joined, client) for client, message in replies.messages.items()}
        replies = replies.without({client: why for client, why in refused.items() if why})
        failed.update(replies.failed)
        for client in requests:
            known[joined.of_client(client)] = client in replies.messages
        for client, message in replies.messages.items():
            if message.arrays and "rows" in message.arrays:
                rows[joined.of_client(client)] = message.arrays["rows"]
        return replies

    def _means(self, joined: Joined, client: int, means: Array, there: Array, kind: str, round: int) -> bytes:
        """The message with the means for a client's border; which are known travels where not all are."""
        part = joined.of_client(client)
        marks = np.zeros(0, np.uint8) if there[part].all() else np.packbits(there[part])
        arrays: Arrays = {"rows": np.rint(means[part]).astype(np.int8), "known": marks}
        return wire.encode(Message(kind, round, arrays=arrays), self._plan.request_layouts[kind])

    # --- what it costs -----------------------------------------------------------------------------------------------

    def _most_of(self, joined: Joined, client: int) -> int:
        hops = [*self._plan.hop_kinds, *(["tally"] if "sums" in self._plan.hop_kinds else [])]
        down = sum(self._most("request", kind, joined, client) for kind in hops)
        down += self._limits.request_bytes("smooth") + self._limits.request_bytes("choice")
        return down + sum(self._reply_bytes(kind, joined, client) for kind in ("smooth", *hops, "choice"))

    def _reply_bytes(self, kind: str, joined: Joined, client: int) -> int:
        least = self._limits.reply_bytes("choice")  # an error's text always fits
        return max(least, self._most("reply", kind, joined, client))

    def _most(self, way: str, kind: str, joined: Joined, client: int) -> int:
        layouts = self._plan.request_layouts if way == "request" else self._plan.reply_layouts
        nodes = int(joined.sizes[client])
        sizes = {"rows": (nodes, self._plan.row_width), "known": (-(-nodes // 8),)}
        layout = layouts.get(kind, Layout(()))
        most = Layout(tuple(replace(spec, shape=sizes.get(spec.name, spec.shape)) for spec in layout))
        return wire.message_bytes(layout, (), most)


def _misfit(message: Message, joined: Joined, client: int) -> str:
    """Return why a reply is refused; "" for one that is not."""
    arrays = message.arrays or {}
    if "rows" in arrays and len(arrays["rows"]) != joined.sizes[client]:
        return f"told {len(arrays['rows'])} rows of a border of {joined.sizes[client]} nodes"
    if "tallies" in arrays and arrays["tallies"].max(initial=0) > joined.own[client]:
        return f"answers {arrays['tallies'].max()} of {joined.own[client]} nodes rightly"
    if not all(np.isfinite(array).all() for array in arrays.values()):
        return "sent sums that are not finite"
    return ""
