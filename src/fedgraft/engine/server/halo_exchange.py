"""Rounds in segments: clients that wait for rows of others' nodes are sent them and go on, until nobody waits.

The server keeps rows by address in a mailbox. A client's rows reach it with each of the client's messages; a client
is sent what it lacks with its orders, and again whenever it waits. All clients of a cohort go on together: what they
told in one segment is there for everybody in the next.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from fedgraft import wire
from fedgraft.contracts import ClientFailed, Runtime, randomness
from fedgraft.contracts.values import Halo, Mail
from fedgraft.engine.halo_codec import Courier, part_of, slots_of
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.exchange import Exchange, Replies
from fedgraft.engine.server.halo_store import Mailbox, misfit
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import ClientError, WireError
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays, Layout, Made


class Segments:
    """The server's end.

    Args:
        plan: what both ends agreed on.
        exchange: sends what clients wait for.
    """

    def __init__(self, plan: Plan, exchange: Exchange) -> None:
        self._plan, self._exchange = plan, exchange
        self._courier = Courier(plan)
        self._told = Layout((*plan.coded_mail_layout, *plan.asked_layout))
        self._mailbox: Mailbox | None = None
        self._bounds: list[tuple[int, int]] = []

    def introduce(self, statistics: Mapping[int, Arrays], replies: Replies, clients: int) -> list[dict[str, Any]]:
        """Whose rows each client needs, as a run's state keeps it; clients with addresses of nowhere are refused."""
        if not self._plan.task.tables:
            return []
        found = self._plan.task.halos(statistics)
        nodes = {client: count for client, (count, _) in found.items()}
        for client in sorted(found):
            if reason := misfit(client, found[client][1], [nodes.get(each) for each in range(clients)]):
                replies.refuse(client, reason)
                del found[client]
        nobody = Halo(np.zeros(0, np.int64), np.zeros(0, np.int64))
        halos = [found[client][1] if client in found else nobody for client in range(clients)]
        counts = np.array([nodes.get(client, 0) for client in range(clients)], np.int64)
        for owner, place in halos:  # of clients that never answered nothing else is known
            np.maximum.at(counts, owner, place + 1)
        return [
            {"nodes": int(count), "owner": halo.owner, "place": halo.place}
            for count, halo in zip(counts, halos, strict=True)
        ]

    def open(self, state: RunState) -> None:
        """Serve a run from its start, or from where it was stored."""
        if not state.halos:
            return
        self._mailbox = mailbox = self._built(state)
        if not state.mailbox:
            state.mailbox = dict(mailbox.start())
        told = [int(mailbox.needed(client).max(initial=-1)) + 1 for client in range(len(state.halos))]
        self._bounds = [self._bound(len(halo["owner"]), most) for halo, most in zip(state.halos, told, strict=True)]

    def most_bytes(self, client: int) -> tuple[int, int]:
        """The most that rows can add for a client: to one reply, and to a whole round."""
        if self._mailbox is None:
            return 0, 0
        down, up = self._bounds[client]
        more = self._plan.refreshes
        return up, (more + 1) * (down + up) + more * 2 * wire.message_bytes()

    def orders(self, state: RunState, client: int, round: int) -> Arrays:
        """What goes with a model: what changed of a client's halo, unless it asks for what it wants."""
        if self._mailbox is None:
            return {}
        return self._coded(self._pulled(state, client, None), round, 0, client)

    def finish(self, state: RunState, replies: Replies, round: int, limits: Mapping[int, int]) -> None:
        """Go on until nobody waits: afterwards `replies` hold the ends of all rounds."""
        if self._mailbox is None:
            return
        segment = 0
        heard = sorted(replies.messages)
        while heard:
            for client in heard:
                self._publish(state, client, replies)
            waiting = [client for client in heard if self._waits(replies, client)]
            if waiting and segment == self._plan.refreshes:
                for client in waiting:
                    replies.refuse(client, f"waited for rows more than {segment} times in a round")
                return
            requests = {
                client: self._rows(state, client, round, segment, replies.messages[client]) for client in waiting
            }
            answers = self._exchange.send("rows", round, requests, {client: limits[client] for client in waiting})
            for client in waiting:
                replies.bytes[client] += answers.bytes[client]
                replies.waits[client] = segment + 1
                del replies.messages[client]
            replies.messages.update(answers.messages)
            replies.failed.update(answers.failed)
            heard = sorted(answers.messages)
            segment += 1

    def relayed(
        self, runtime: Runtime, state: RunState, models: Mapping[int, bytes], round: int
    ) -> tuple[Mapping[int, Arrays], dict[int, str]]:
        """What clients need of each other's states to score a model: rows, exact and free, layer by layer.

        Args:
            runtime: where the clients are.
            state: the run's.
            models: {client: a message with the shared parameters that it is scored with}.
            round: which they belong to.

        Returns:
            {client: arrays of `Plan.mail_layout`, made when they are asked for}, and {client: why it could not tell}.
        """
        failed: dict[int, str] = {}
        courier = self._courier
        if not state.halos:
            return Made(models, lambda client: {}), failed
        mailbox = self._built(state)
        scratch = mailbox.start()

        def heard(client: int) -> Arrays:
            everybody = np.arange(len(state.halos[client]["owner"]))
            return courier.raw(mailbox.look_up(scratch, client, [everybody] * len(self._plan.task.tables)))

        for layer in range(len(self._plan.task.tables)):
            requests = Made(models, partial(self._relay_request, heard, round, layer))
            replies = Replies()
            answers: Mapping[int, bytes | ClientFailed] = runtime.measure(requests, models)
            for client in models:
                self._exchange.accept(replies, "relay", round, client, answers[client])
            for client, message in sorted(replies.messages.items()):
                mailbox.publish(scratch, client, courier.read(message.arrays or {}))
            failed.update(replies.failed)
        return Made(models, heard), failed

    def _relay_request(self, heard: Callable[[int], Arrays], round: int, layer: int, client: int) -> bytes:
        message = Message("relay", round, arrays=heard(client), flags=layer)
        return wire.encode(message, self._plan.request_layouts["relay"])

    def _built(self, state: RunState) -> Mailbox:
        halos = [Halo(halo["owner"], halo["place"]) for halo in state.halos]
        return Mailbox([halo["nodes"] for halo in state.halos], halos, self._plan.task.tables)

    def _bound(self, *nodes: int) -> tuple[int, int]:
        """The most bytes of rows of so many nodes, down and up."""
        layout, empty = self._plan.coded_mail_layout, wire.message_bytes()
        down, up = (wire.message_bytes(layout, (), self._plan.mail_bounds(count)) - empty for count in nodes)
        asked = wire.message_bytes(self._plan.asked_layout, (), self._plan.asked_bounds(nodes[0])) - empty
        return down, up + asked

    def forget(self, state: RunState, clients: Iterable[int]) -> None:
        """Clients that failed may have lost what they were sent: it counts as never sent."""
        for seen in state.mailbox.get("seen", ()):
            for client in clients:
                seen[client] = 0

    def _waits(self, replies: Replies, client: int) -> bool:
        return client in replies.messages and replies.messages[client].kind == "wait"

    def _publish(self, state: RunState, client: int, replies: Replies) -> None:
        """Take in what a client told; one that tells nonsense has failed."""
        assert self._mailbox is not None
        try:
            arrays = replies.messages[client].arrays or {}
            if wire.arrays_bytes(arrays, self._told) > self._bounds[client][1]:  # zeros, too, are paid for
                raise WireError("tells more of its nodes than there is to tell")
            mail = self._courier.decode(arrays)
            self._mailbox.publish(state.mailbox, client, mail)  # type: ignore[arg-type]
        except (WireError, ClientError) as error:
            replies.refuse(client, str(error))

    def _rows(self, state: RunState, client: int, round: int, segment: int, message: Message) -> bytes:
        asked = None
        if self._plan.task.pulls == "asked":
            halo = len(state.halos[client]["owner"])
            arrays = part_of(message.arrays or {}, self._plan.asked_layout)
            asked = [slot[slot < halo] for slot in map(slots_of, arrays.values())]
        arrays = self._coded(self._pulled(state, client, asked), round, segment + 1, client)
        return wire.encode(Message("rows", round, arrays=arrays, flags=segment), self._plan.coded_mail_layout)

    def _pulled(self, state: RunState, client: int, asked: Sequence[Any] | None) -> list[Mail]:
        assert self._mailbox is not None
        if self._plan.task.pulls == "changed":
            return self._mailbox.pull(state.mailbox, client)  # type: ignore[arg-type]
        if asked is None:
            return self._courier.nothing()
        return self._mailbox.look_up(state.mailbox, client, asked)  # type: ignore[arg-type]

    def _coded(self, mail: list[Mail], round: int, segment: int, client: int) -> Arrays:
        return self._courier.encode(mail, randomness.generator(self._plan.seed, f"mail-{segment}", round, client))
