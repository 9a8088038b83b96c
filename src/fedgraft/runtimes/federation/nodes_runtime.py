"""The server's end: a runtime whose clients are nodes elsewhere, which come, go and keep what they remember."""

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fedgraft.contracts import ClientFailed, Runtime
from fedgraft.contracts.runtime import fingerprint
from fedgraft.errors import RefusedError, WireError, printable
from fedgraft.runtimes.federation import envelope
from fedgraft.runtimes.federation.journal import MOST_HEAD_BYTES, head_in
from fedgraft.runtimes.federation.members import PROBE_SECONDS, Arrived, Link, Members, Roster
from fedgraft.runtimes.workers.pool import LATE
from fedgraft.runtimes.workers.remembering import accepted, too_long

POLL_SECONDS: Final = 0.3
"""Seconds between two looks at what is late, and at who is connected, while no answer comes."""
REFRESH_SECONDS: Final = 2.0
"""Seconds between two looks at who is connected."""
SILENT_SECONDS: Final = 60.0
"""How long a node may hold an order until the user is told, once for each client."""
AWAY = "its node is not connected"
KEYLESS = "its site has no key in the federation: it was removed, or not added yet"
FORGOT = "its memory was lost; it goes on as new"
CHECKPOINTS: Final = 2
"""Of how many checkpoints nodes keep memories: the last one and the one before."""


@dataclass
class _Task:
    """An order to a client that has not been answered.

    Args:
        order: the order; sent again, it keeps its id.
        due: when it is given up.
        message: id of the message that it is in; "" while it is not sent.
        node: whom it was sent to.
        probed: when its node was last asked who it is, or was sent the order.
        began: when it was first sent; 0 while it was not.
    """

    order: envelope.Order
    due: float
    message: str = ""
    node: int = -1
    probed: float = 0.0
    began: float = 0.0


class NodesRuntime(Runtime):
    """Clients at nodes that are reached over a link.

    An order that is not answered, since its node, the link or the server was lost, is sent again when the node is
    back: the node has what the client remembered, and answers the same. Only a deadline gives a client up.

    Args:
        link: the way to the nodes.
        run: its name, 32 hexadecimal digits.
        count: of clients.
        recipe: what is run, for nodes that join.
        roster: says which nodes may take part; None asks each node and believes it.
        note: says something to the user.
    """

    def __init__(
        self,
        link: Link,
        run: str,
        count: int,
        recipe: bytes,
        roster: Roster | None = None,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._link, self._run, self._count, self._note = link, run, count, note
        self.members = Members(link, run, count, recipe, roster, note)
        self._memories: dict[int, bytes] = {}
        self._set_ups: dict[int, bytes] = {}
        self._changed: set[int] = set()
        self._checkpoints: deque[dict[int, bytes]] = deque(maxlen=CHECKPOINTS)
        self._flops: dict[int, int] = {}
        self._forgotten: set[int] = set()
        self._missing: set[int] = set()
        self._silent: set[int] = set()  # of whom the user was told
        self._refreshed = -math.inf
        self.outside = {"down": 0, "up": 0}
        """Bytes of the experimenter's messages, which no ledger counts."""
        self.heads: dict[int, Mapping[str, Any]] = {}
        """{client: "lines" and "head" of its node's audit log at the run's end}, of those that have said it."""

    def clients(self) -> Sequence[int]:
        """Return the clients' indices."""
        return range(self._count)

    def wait_for_all(self, seconds: float = 0.0) -> None:
        """Wait until every client's node has joined that can, or so many seconds; 0 = for ever.

        Raises `RefusedError` where a node refuses to take part.
        """
        began, last_count = time.monotonic(), -1
        while self._lacking():
            if seconds and time.monotonic() - began > seconds:
                return
            self._refresh(at_once=False)
            self._take_arrived({}, seconds=POLL_SECONDS)
            for client, why in self.members.refusals.items():
                said = f"The node of client {client} refuses this run: {why}."
                raise RefusedError(said, self.members.codes.get(client, ""))
            if not (lacking := self._lacking()):
                return
            if (here := len(self.members.here)) != last_count:
                self._note(f"{here} of {here + len(lacking)} nodes have joined; waiting for client {lacking[0]}.")
                last_count = here

    def _lacking(self) -> list[int]:
        """Return the clients who can join and have not."""
        return [c for c in self.clients() if c not in self.members.here and c not in self.members.gone]

    def exchange(
        self, requests: Mapping[int, bytes], limits: Mapping[int, int], deadline_seconds: float | None
    ) -> dict[int, bytes | ClientFailed]:
        """Have every request served; a reply beyond its limit or a deadline passed fails that client."""
        orders = {c: self._order("serve", c, request=request) for c, request in requests.items()}

        def take(client: int, answer: envelope.Answer) -> None:
            self._remember(client, answer, requests[client])
            if answer.flops:
                self._flops[client] = self._flops.get(client, 0) + answer.flops

        return accepted(self._delivered(orders, limits, deadline_seconds), limits, take)

    def measure(
        self, requests: Mapping[int, bytes], models: Mapping[int, bytes], deadline_seconds: float | None
    ) -> dict[int, bytes | ClientFailed]:
        """Have every request of the experimenter served; its bytes are counted in `outside`."""
        orders = {
            c: self._order("measure", c, request=request, scored=bytes(models.get(c, b"")))
            for c, request in requests.items()
        }

        def take(client: int, answer: envelope.Answer) -> None:
            self._remember(client, answer, requests[client])
            self.outside["down"] += len(orders[client].request) + len(orders[client].scored)
            self.outside["up"] += len(answer.reply)

        return accepted(self._delivered(orders, {}, deadline_seconds), {}, take)

    def hand_over(self, models: Mapping[int, bytes], deadline_seconds: float) -> list[int]:
        """Give clients' nodes what a run leaves them; return the clients that could not be reached."""
        orders = {client: self._order("model", client, request=model) for client, model in models.items()}
        answers = self._delivered(orders, dict.fromkeys(orders, MOST_HEAD_BYTES), deadline_seconds)
        left = {client: answer for client, answer in answers.items() if isinstance(answer, envelope.Answer)}
        heads = {client: head_in(answer.reply) for client, answer in left.items()}
        self.heads = {client: head for client, head in heads.items() if head}
        return [client for client in answers if client not in left]

    def flops(self) -> dict[int, int]:
        """Operations since the last such call."""
        spent, self._flops = self._flops, {}
        return spent

    def memories(self, changed: bool = True) -> Iterator[tuple[int, bytes]]:
        """Fingerprints of memories, and set-up messages: those that changed since the last such call, or all."""
        known = {**self._memories, **{~client: message for client, message in self._set_ups.items()}}
        clients = sorted(self._changed if changed else known)
        if changed:
            self._changed = set()
            self._checkpoints.append(dict(self._memories))
        return ((client, known[client]) for client in clients)

    def restore(self, memories: Mapping[int, bytes]) -> None:
        """Go on from the memories that nodes had at a checkpoint."""
        self._memories = {client: memory for client, memory in memories.items() if client >= 0}
        self._set_ups = {~client: message for client, message in memories.items() if client < 0}
        self._changed = set()
        self._checkpoints.append(dict(self._memories))

    def forgotten(self) -> frozenset[int]:
        """Return the clients whose node had lost what they remembered."""
        lost, self._forgotten = frozenset(self._forgotten), set()
        return lost

    def close(self) -> None:
        """Close the link."""
        self._link.close()

    def _order(self, kind: str, client: int, **content: bytes) -> envelope.Order:
        kept = {memories[client] for memories in self._checkpoints if client in memories}
        memory, set_up = (known.get(client, b"") for known in (self._memories, self._set_ups))
        set_up = fingerprint(set_up) if set_up else b""
        return envelope.Order(
            kind, self._run, os.urandom(16), client, memory, set_up, keep=b"".join(sorted(kept)), **content
        )

    def _remember(self, client: int, answer: envelope.Answer, request: bytes) -> None:
        if answer.memory != self._memories.get(client, b""):
            self._memories[client] = answer.memory
            self._changed.add(client)
        if answer.set_up == fingerprint(request):
            self._set_ups[client] = bytes(request)
            self._changed.add(~client)

    # --- delivery ----------------------------------------------------------------------------------------------------

    def _delivered(
        self, orders: Mapping[int, envelope.Order], limits: Mapping[int, int], deadline_seconds: float | None
    ) -> dict[int, envelope.Answer | ClientFailed]:
        """Have orders answered; what has no answer by its deadline has failed."""
        due = math.inf if deadline_seconds is None else time.monotonic() + deadline_seconds
        tasks = {client: _Task(order, due) for client, order in orders.items()}
        done: dict[int, envelope.Answer | ClientFailed] = {}
        self._refresh(at_once=True)
        self._take_arrived({})
        if deadline_seconds is not None:
            for client in self._missing & tasks.keys() - self.members.here.keys():
                done[client] = ClientFailed(AWAY)
        while waiting := {client: task for client, task in tasks.items() if client not in done}:
            now = time.monotonic()
            for client, task in waiting.items():
                if client in self.members.gone:
                    done[client] = ClientFailed(KEYLESS)
                elif now >= task.due:
                    done[client] = ClientFailed(LATE)
                    self._missing.add(client)
                elif not task.message and client in self.members.here:
                    self._send(client, task, now)
            sent = {task.message: task for task in waiting.values() if task.message}
            done.update(self._take_arrived(sent, limits, POLL_SECONDS if waiting.keys() - done.keys() else 0.0))
            self._missing -= {client for client, answer in done.items() if isinstance(answer, envelope.Answer)}
            self._look_after(waiting, now)
        return {client: done[client] for client in orders}

    def _send(self, client: int, task: _Task, now: float) -> None:
        task.node = self.members.here[client]
        task.message = self._link.send(task.node, envelope.packed(task.order)) or ""
        task.probed, task.began = now, task.began or now

    def _look_after(self, waiting: Mapping[int, _Task], now: float) -> None:
        """Look who is connected; have orders sent again whose nodes are gone, and ask those that are silent."""
        if not self._refresh(at_once=False):
            return
        for client, task in waiting.items():
            if task.began and now - task.began > SILENT_SECONDS and client not in self._silent:
                self._silent.add(client)
                here = "is connected" if client in self.members.here else "is not connected"
                self._note(
                    f"Client {client} has not answered for {SILENT_SECONDS:g} s; its node {here}. It is waited for."
                )
            if task.message and self.members.here.get(client) != task.node:
                task.message = ""
            elif task.message and now - task.probed > PROBE_SECONDS and not self.members.may_answer(task.node):
                task.probed = now
                self.members.ask(task.node)

    def _refresh(self, at_once: bool) -> bool:
        """Look who is connected, unless that was done a moment ago."""
        if not at_once and time.monotonic() - self._refreshed < REFRESH_SECONDS:
            return False
        self.members.refresh()
        self._refreshed = time.monotonic()
        return True

    def _take_arrived(
        self, sent: Mapping[str, _Task], limits: Mapping[int, int] | None = None, seconds: float = 0.0
    ) -> dict[int, envelope.Answer | ClientFailed]:
        """Take what has come back, or comes within so many seconds: {client: its answer, or why it has failed}."""
        expected = [*sent, *self.members.joining]
        done: dict[int, envelope.Answer | ClientFailed] = {}
        if not expected:
            time.sleep(seconds)
        for arrived in self._link.receive(expected, seconds) if expected else ():
            task = sent.get(arrived.message)
            if task is None:
                joined = self.members.joined(arrived.message, arrived.node, _answer_in(arrived, ""))
                for each in sent.values():
                    if each.order.client == joined and each.message:
                        each.message = ""  # it answers, and has not answered that: the order was lost
            elif arrived.content is None:
                task.message = ""
            elif (answer := self._judged(task, arrived, (limits or {}).get(task.order.client))) is not None:
                done[task.order.client] = answer
        return done

    def _judged(self, task: _Task, arrived: Arrived, limit: int | None) -> envelope.Answer | ClientFailed | None:
        """Return the answer to an order, or why the client has failed; None where the order is to be sent again."""
        client, content = task.order.client, arrived.content or b""
        if limit is not None and len(content) > limit + envelope.MOST_ENVELOPE_BYTES:
            return too_long(len(content), limit)
        answer = _answer_in(arrived, task.order.run)
        if answer is None or arrived.node != task.node or answer.client != client or answer.id != task.order.id:
            return ClientFailed("its node answered something that is no answer to this order", len(content))
        if answer.status == envelope.SERVED:
            self.members.note_head(answer)  # of a node that has joined: another one's log may lack lines
            return answer
        task.message = ""
        if answer.status == envelope.STRANGE:
            self.members.rejoin(task.node)
            return None
        if answer.status == envelope.UNSET and client in self._set_ups and not task.order.set_up_message:
            task.order = _with(task.order, set_up_message=self._set_ups[client])
            return None
        if answer.status == envelope.LOST:
            self._forgotten.add(client)
            self._memories.pop(client, None)
            self._changed.discard(client)
            if task.order.kind == "serve":
                return ClientFailed(FORGOT)
            task.order = _with(task.order, memory=b"")
            return None
        return ClientFailed(printable(answer.reply.decode(errors="replace")) or "its node refused", len(content))


def _with(order: envelope.Order, **changes: bytes) -> envelope.Order:
    """Return an order with other content, and another id."""
    return envelope.Order(**{**vars(order), "id": os.urandom(16), **changes})


def _answer_in(arrived: Arrived, run: str) -> envelope.Answer | None:
    """Return the answer in what came back; None for what is none, or of another run."""
    try:
        answer = envelope.opened(envelope.Answer, arrived.content or b"")
    except WireError:
        return None
    return answer if not run or answer.run == run else None
