"""Rounds in segments: clients that pause for halo rows are sent them and go on, until nobody pauses.

The server keeps rows by address in a halo store. A client's rows reach it with each of the client's messages. A client
is sent what it lacks with the order to train, and again whenever it pauses. All clients of a cohort go on together:
what they pushed in one segment is there for everybody in the next.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from fedgraft import wire
from fedgraft.contracts import randomness
from fedgraft.contracts.values import Halo, HaloRows
from fedgraft.engine.halo_codec import HaloCodec, part_of, slots_of
from fedgraft.engine.plan import Plan
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.exchange import Exchange, Replies, Traffic, halo_bytes
from fedgraft.engine.server.halo.halo_store import HaloStore, misfit
from fedgraft.errors import ClientError, WireError, printable
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays, Layout
from fedgraft.wire.lazy import Made


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
