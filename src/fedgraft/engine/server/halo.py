"""Rounds in segments: clients that pause for halo rows are sent them and go on, until nobody pauses.

The server keeps rows by address in a halo store, with who has been sent which; what they say does not matter here. A
client's rows reach it with each of the client's messages. A client is sent what it lacks with the order to train, and
again whenever it pauses. All clients of a cohort go on together: what they pushed in one segment is there for everybody
in the next.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypedDict

import numpy as np

from fedgraft import wire
from fedgraft.contracts import randomness
from fedgraft.contracts.values import Halo, HaloRows, Indices
from fedgraft.engine.halo_codec import HaloCodec, slots_of
from fedgraft.engine.plan import Plan
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.exchange import Exchange, Replies, Traffic, halo_bytes
from fedgraft.errors import ClientError, WireError, printable
from fedgraft.wire import Message
from fedgraft.wire.layouts import Array, Arrays, Layout, part_of
from fedgraft.wire.lazy import Made

PLACE = (1 << 32) - 1
"""The bits of an address that tell the place; those above tell the owner."""


class State(TypedDict):
    """The store's state, as a checkpoint keeps it; lists have one entry per hidden layer.

    time: how often rows were published.
    rows: [needed, width], float32 or, of encrypted rows, uint8, of the nodes that anybody needs, by owner and place.
    published: int64 [needed], when each row was last published, 0 = never.
    seen: int64 [clients], when each client last pulled.
    """

    time: int
    rows: list[Array]
    published: list[Indices]
    seen: list[Indices]


class HaloStore:
    """Moves rows of hidden layers from those who own nodes to those who need them.

    A client is sent a row again only when its owner has published it since the client last pulled.

    Args:
        nodes: how many each client has.
        halos: of each client. Raises `WireError` for addresses of nodes that no other client has.
        widths: of the hidden layers that travel.
        dtype: of rows.
    """

    def __init__(
        self, nodes: Sequence[int], halos: Sequence[Halo], widths: Sequence[int], dtype: str = "float32"
    ) -> None:
        self._widths, self._dtype, clients = tuple(widths), dtype, len(nodes)
        for client, halo in enumerate(halos):
            if reason := misfit(client, halo, nodes):
                raise WireError(reason)
        addresses = [halo.owner.astype(np.int64) << 32 | halo.place for halo in halos]
        # Only what is needed has a row: how many nodes a client claims to have costs the server nothing.
        self._needed = np.unique(np.concatenate([np.zeros(0, np.int64), *addresses]))
        self._first = np.searchsorted(self._needed, np.arange(clients + 1, dtype=np.int64) << 32)
        self._rows: list[Indices] = [np.searchsorted(self._needed, each) for each in addresses]

    @classmethod
    def of(cls, halos: Sequence[Mapping[str, Any]], layout: Layout) -> Self:
        """Return a store of rows of a layout such as `Plan.halo_layout`; `halos` are {"nodes", "owner", "place"}."""
        rows = [spec for spec in layout if len(spec.shape) == 2]
        addresses = [Halo(halo["owner"], halo["place"]) for halo in halos]
        widths, dtypes = [spec.shape[1] for spec in rows], [spec.dtype for spec in rows]
        return cls([halo["nodes"] for halo in halos], addresses, widths, *dtypes[:1])

    def start(self) -> State:
        """Return the state before any row was published."""
        needed = len(self._needed)
        return {
            "time": 0,
            "rows": [np.zeros((needed, width), self._dtype) for width in self._widths],
            "published": [np.zeros(needed, np.int64) for _ in self._widths],
            "seen": [np.zeros(len(self._rows), np.int64) for _ in self._widths],
        }

    def needed(self, client: int) -> Indices:
        """Return the numbers of a client's nodes that anybody else needs, int64 [needed], ascending."""
        return self._needed[self._first[client] : self._first[client + 1]] & PLACE

    def publish(self, state: State, client: int, rows_by_layer: Sequence[HaloRows]) -> None:
        """Take rows of a client's own nodes in, per layer; `slot` is a place among them.

        Raises `WireError`, before anything is taken in, for rows of nodes that nobody needs or of a wrong width.
        """
        own, places = self.needed(client), []
        for (place, rows), width in zip(rows_by_layer, self._widths, strict=True):
            if rows.shape != (len(place), width):
                raise WireError(f"rows of shape {list(rows.shape)} for {len(place)} nodes and width {width}")
            at = np.searchsorted(own, place)
            if len(place) and (at.max() >= len(own) or (own[at] != place).any()):
                raise WireError(f"rows of nodes that nobody needs, among {place.min()}..{place.max()}")
            places.append(self._first[client] + at)
        state["time"] += 1
        for layer, ((_, rows), at) in enumerate(zip(rows_by_layer, places, strict=True)):
            state["rows"][layer][at] = rows
            state["published"][layer][at] = state["time"]

    def pull(self, state: State, client: int) -> list[HaloRows]:
        """Return the rows of a client's halo that were published since it last pulled, per layer."""
        rows_by_layer, own = [], self._rows[client]
        for rows, published, seen in zip(state["rows"], state["published"], state["seen"], strict=True):
            slot = np.flatnonzero(published[own] > seen[client])
            rows_by_layer.append(HaloRows(slot, rows[own[slot]]))
            seen[client] = state["time"]
        return rows_by_layer

    def look_up(self, state: State, client: int, slots: Sequence[Indices]) -> list[HaloRows]:
        """Return rows of some of a client's halo, [layers]; rows that were never published are left out."""
        rows_by_layer, own = [], self._rows[client]
        for rows, published, slot in zip(state["rows"], state["published"], slots, strict=True):
            there = slot[published[own[slot]] > 0]
            rows_by_layer.append(HaloRows(there, rows[own[there]]))
        return rows_by_layer


def misfit(client: int, halo: Halo, nodes: Sequence[int | None]) -> str:
    """Return what is wrong with the addresses of a client's halo; "" for nothing.

    `nodes` says how many each client has; None where that is not known.
    """
    owner, place = halo
    if owner.shape != place.shape:
        return f"client {client} needs nodes of {len(owner)} clients at {len(place)} places"
    most = np.array([np.iinfo(np.int64).max if count is None else count for count in nodes])
    other = (owner >= 0) & (owner < len(nodes)) & (owner != client) & (place >= 0)
    other[other] &= place[other] < most[owner[other]]
    if other.all():
        return ""
    slot = int(np.flatnonzero(~other)[0])
    return f"client {client} needs node {place[slot]} of client {owner[slot]}, where there is none"


class HaloExchange:
    """The server's end of the halo exchange.

    Args:
        plan: what both ends agreed on.
        exchange: sends what clients pause for.
    """

    def __init__(self, plan: Plan, exchange: Exchange) -> None:
        self._plan, self._exchange = plan, exchange
        self._codec = HaloCodec(plan)
        self._pushed = Layout((*plan.coded_halo_layout, *plan.asked_layout))
        self._store: HaloStore | None = None
        self._relays: HaloStore | None = None
        self._state: Any = {}
        self._bounds: list[tuple[int, int]] = []
        self._halo_sizes: list[int] = []

    def open(self, halos: Sequence[Mapping[str, Any]], tree: dict[str, Any]) -> None:
        """Serve a run from its start, or from where it was stored.

        Args:
            halos: {"nodes", "owner", "place"} of each client, as `halos_of` returned them; empty where no rows travel.
            tree: the store's state, changed in place, so that a checkpoint of the run holds it; {} at the start.
        """
        if not halos:
            return
        self._store = store = HaloStore.of(halos, self._plan.halo_layout)
        self._relays = HaloStore.of(halos, self._plan.relayed_layout) if self._plan.encrypted else store
        if not tree:
            tree.update(store.start())
        self._state = tree
        self._halo_sizes = [len(halo["owner"]) for halo in halos]
        most = [int(store.needed(client).max(initial=-1)) + 1 for client in range(len(halos))]
        self._bounds = [self._bound(halo, own) for halo, own in zip(self._halo_sizes, most, strict=True)]

    @property
    def active(self) -> bool:
        """True where halo rows travel."""
        return self._store is not None

    def most_bytes(self, client: int) -> tuple[int, Traffic]:
        """Return the most bytes that rows can add for a client: to one reply, and to a whole round."""
        if self._store is None:
            return 0, Traffic()
        (down, up), more = self._bounds[client], self._plan.refreshes
        rows = Traffic((more + 1) * down, (more + 1) * up)
        return up, rows.plus(Traffic(more * wire.message_bytes(), more * wire.message_bytes()))

    def with_order(self, client: int, round: int) -> Arrays:
        """Return what goes with the order to train: what changed of a client's halo, unless it asks for rows."""
        if self._store is None:
            return {}
        return self._coded(self._pulled(client, None), round, 0, client)

    def finish(self, replies: Replies, round: int, limits: Mapping[int, int]) -> Replies:
        """Go on until nobody pauses; return the replies that end the clients' rounds."""
        if self._store is None:
            return replies
        messages, failed = dict(replies.messages), dict(replies.failed)
        moved, waits = dict(replies.bytes), dict(replies.waits)
        segment, answered = 0, sorted(messages)
        while answered:
            for client in answered:
                if reason := self._push(client, messages[client]):
                    failed[client] = reason
                    del messages[client]
            waiting = [client for client in answered if client in messages and messages[client].kind == "wait"]
            if waiting and segment == self._plan.refreshes:
                for client in waiting:
                    failed[client] = f"waited for rows more than {segment} times in a round"
                    del messages[client]
                break
            requests, rows = self._rows({client: messages.pop(client) for client in waiting}, round, segment)
            limit = {client: limits[client] for client in waiting}
            answers = self._exchange.send("rows", round, requests, limit, halo_bytes=rows)
            for client in waiting:
                moved[client] = moved[client].plus(answers.bytes[client])
                waits[client] = segment + 1
            messages.update(answers.messages)
            failed.update(answers.failed)
            answered = sorted(answers.messages)
            segment += 1
        return Replies(messages, failed, moved, waits)

    def relayed(self, models: Mapping[int, bytes], round: int) -> tuple[Mapping[int, Arrays], dict[int, str]]:
        """Have clients relay the states under a model to score: rows, exact and free, layer by layer.

        Args:
            models: {client: a message with the shared parameters that it is scored with}.
            round: which they belong to.

        Returns:
            {client: arrays of `Plan.relayed_layout`, made when asked for}, and {client: why it could not relay}. Where
            somebody could not, others lack its rows, and their scores would be wrong.
        """
        store = self._relays
        if store is None:
            return Made(models, lambda client: {}), {}
        scratch, layers = store.start(), len(self._plan.halo_widths)

        def received(client: int) -> Arrays:
            everybody = np.arange(self._halo_sizes[client])
            return self._codec.raw(store.look_up(scratch, client, [everybody] * layers))

        for layer in range(layers):
            requests = Made(models, partial(self._relay_request, received, round, layer))
            replies = self._exchange.measure("relay", round, requests, models)
            refused: dict[int, str] = {}
            for client, message in sorted(replies.messages.items()):
                try:
                    store.publish(scratch, client, self._codec.read(message.arrays or {}))
                except WireError as error:
                    refused[client] = printable(str(error))
            if failed := dict(replies.without(refused).failed):
                return Made(models, received), failed
        return Made(models, received), {}

    def forget(self, clients: Iterable[int]) -> None:
        """Count what clients were sent as never sent: clients that failed may have lost it."""
        for seen in self._state.get("seen", ()):
            for client in clients:
                seen[client] = 0

    def _relay_request(self, received: Callable[[int], Arrays], round: int, layer: int, client: int) -> bytes:
        message = Message("relay", round, arrays=received(client), layer=layer)
        return wire.encode(message, Protocol.of(self._plan).request_layouts["relay"])

    def _bound(self, *nodes: int) -> tuple[int, int]:
        """The most bytes of rows of so many nodes, down and up."""
        layout, empty = self._plan.coded_halo_layout, wire.message_bytes()
        down, up = (wire.message_bytes(layout, (), self._plan.halo_bounds(count)) - empty for count in nodes)
        slots = wire.message_bytes(self._plan.asked_layout, (), self._plan.asked_bounds(nodes[0])) - empty
        return down, up + slots

    def _push(self, client: int, message: Message) -> str:
        """Take in what a client pushed; why it cannot be taken, "" if it is."""
        assert self._store is not None
        try:
            arrays = message.arrays or {}
            if wire.arrays_bytes(arrays, self._pushed) > self._bounds[client][1]:  # zeros, too, are paid for
                raise WireError("tells more of its nodes than there is to tell")
            self._store.publish(self._state, client, self._codec.decode(arrays))
        except (WireError, ClientError) as error:
            return printable(str(error))
        return ""

    def _rows(
        self, waiting: Mapping[int, Message], round: int, segment: int
    ) -> tuple[dict[int, bytes], dict[int, int]]:
        """{client: message with the rows that it waits for}, and {client: bytes of them that are rows}."""
        layout = self._plan.coded_halo_layout
        requests, sizes = {}, {}
        for client, message in waiting.items():
            slots = None
            if self._plan.asks_rows:
                arrays = part_of(message.arrays or {}, self._plan.asked_layout)
                slots = [slot[slot < self._halo_sizes[client]] for slot in map(slots_of, arrays.values())]
            rows = self._coded(self._pulled(client, slots), round, segment + 1, client)
            requests[client] = wire.encode(Message("rows", round, arrays=rows, segment=segment), layout)
            sizes[client] = halo_bytes(rows, layout)
        return requests, sizes

    def _pulled(self, client: int, slots: Sequence[Any] | None) -> list[HaloRows]:
        assert self._store is not None
        if not self._plan.asks_rows:
            return self._store.pull(self._state, client)
        if slots is None:
            return self._codec.nothing()
        return self._store.look_up(self._state, client, slots)

    def _coded(self, rows: list[HaloRows], round: int, segment: int, client: int) -> Arrays:
        return self._codec.encode(rows, randomness.lazy(self._plan.seed, f"mail-{segment}", round, client))


def halos_of(plan: Plan, statistics: Mapping[int, Arrays], clients: int) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """Return the halo of each client, as a run's state keeps it, and {client: why its addresses are refused}.

    Of `clients`, their number, `statistics` are {client: what it published}.

    Returns:
        {"nodes", "owner", "place"} of each client: how many nodes it has, and the addresses of those that it needs of
        others; an empty list where no rows travel.
    """
    if plan.halo is None:
        return [], {}
    halo_of = plan.halo.halos(statistics)
    nodes = {client: count for client, (count, _) in halo_of.items()}
    refused = {}
    for client in sorted(halo_of):
        if reason := misfit(client, halo_of[client][1], [nodes.get(each) for each in range(clients)]):
            refused[client] = reason
            del halo_of[client]
    nobody = Halo(np.zeros(0, np.int64), np.zeros(0, np.int64))
    halos = [halo_of[client][1] if client in halo_of else nobody for client in range(clients)]
    counts = np.array([nodes.get(client, 0) for client in range(clients)], np.int64)
    for owner, place in halos:  # of clients that never answered nothing else is known
        np.maximum.at(counts, owner, place + 1)
    return [
        {"nodes": int(count), "owner": halo.owner, "place": halo.place}
        for count, halo in zip(counts, halos, strict=True)
    ], refused
