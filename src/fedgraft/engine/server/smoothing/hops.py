"""Hops of smoothing: rows of boundaries that clients send, each by itself, and how well each choice does."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from fedgraft import wire
from fedgraft.contracts.values import Indices
from fedgraft.engine.plan import Plan
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.exchange import Exchange, Replies
from fedgraft.engine.server.limits import Limits
from fedgraft.engine.server.smoothing.cross_client import CrossClientEdges
from fedgraft.wire import Message
from fedgraft.wire.layouts import Array, Arrays, Layout

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
