"""Answers smoothed over the edges between clients, by way of the server.

Before training, clients tell which of their nodes have neighbours elsewhere, and whose these are. After it, in each
hop, they tell a row for each such node and are sent, for each, the mean row of its neighbours elsewhere. An edge counts
where both of its ends tell of it: nobody learns of a node that its owner has not joined to his.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedgraft import wire
from fedgraft.contracts.abilities.smoothing import Boundary
from fedgraft.contracts.values import Indices
from fedgraft.engine import boundary_codec
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.exchange import Exchange
from fedgraft.engine.server.limits import Limits
from fedgraft.engine.server.smoothing.cross_client import CrossClientEdges
from fedgraft.engine.server.smoothing.hops import Hops, Means
from fedgraft.errors import WireError, printable
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays


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
        """Ask clients for their borders; return these, joined, and {client: why it has no part in it}.

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
