"""One exchange: requests out, replies in, no reply trusted, every byte charged.

Whatever is wrong with a reply (an error, a wrong kind, round or layout, random bytes, NaN) becomes a reason in
`failed`; only finite arrays of the agreed layout come out.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fedgraft import wire
from fedgraft.contracts import ClientFailed, Runtime
from fedgraft.engine.plan import MAIL, Plan
from fedgraft.engine.server.ledger import Ledger
from fedgraft.errors import ClientError, WireError
from fedgraft.wire import Message
from fedgraft.wire.layouts import Array, Layout, finite

PURPOSES = {
    "hello": "statistics",
    "statistics": "statistics",
    "probe": "probe",
    "train": "model",
    "alone": "model",
    "rows": "halo",
    "wait": "halo",
    "evaluate": "evaluation",
}


WAITS = {"train": ("train", "wait"), "rows": ("train", "wait")}
"""{kind of request: kinds of replies to it} where clients may wait for rows in mid-round; else they are its own."""


@dataclass
class Replies:
    """What came back from one exchange.

    Args:
        messages: {client: accepted reply}.
        failed: {client: reason}.
        bytes: {client: bytes of its request and reply}.
        waits: {client: how often it was answered in between}, of those that were.
    """

    messages: dict[int, Message] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    bytes: dict[int, int] = field(default_factory=dict)
    waits: dict[int, int] = field(default_factory=dict)

    def refuse(self, client: int, reason: str) -> None:
        """Take an accepted reply back."""
        del self.messages[client]
        self.failed[client] = reason


class Exchange:
    """Sends requests over a runtime.

    Args:
        plan: what both ends agreed on.
        runtime: carries the bytes.
        ledger: where they are charged.
        deadline_seconds: how long to wait for a client; None = for ever.
    """

    def __init__(self, plan: Plan, runtime: Runtime, ledger: Ledger, deadline_seconds: float | None) -> None:
        self._plan, self._runtime, self._ledger = plan, runtime, ledger
        self._deadline_seconds = deadline_seconds

    def send(
        self,
        kind: str,
        round: int,
        requests: Mapping[int, bytes],
        limits: Mapping[int, int],
        charged: bool = True,
    ) -> Replies:
        """Exchange requests of one kind.

        Args:
            kind: of the requests, and of the replies, except where `WAITS` allows another.
            round: which they belong to.
            requests: {client: message}.
            limits: {client: most bytes of its reply}.
            charged: whether the bytes are entered into the ledger.
        """
        answers = self._runtime.exchange(requests, limits, self._deadline_seconds)
        replies = Replies()
        for client, request in requests.items():
            answer, most = answers.get(client, ClientFailed("no reply")), limits[client]
            size = answer.bytes_up if isinstance(answer, ClientFailed) else len(answer)
            if size > most:
                answer, size = ClientFailed(f"a reply of {size} bytes where at most {most} are allowed"), most
            if charged:
                self.charge(round, client, "down", kind, request, len(request))
            replies.bytes[client] = len(request) + size
            self.accept(replies, kind, round, client, answer)
            if charged:
                accepted = replies.messages.get(client)
                self.charge(round, client, "up", accepted.kind if accepted else kind, answer, size)
        return replies

    def charge(
        self, round: int, client: int, direction: str, kind: str, message: bytes | ClientFailed, size: int
    ) -> None:
        """Enter a message, or what came of one: header, rows of nodes, and the rest under the purpose of its kind."""
        rows = 0 if isinstance(message, ClientFailed) else self._mail_bytes(direction, kind, message)
        self._ledger.charge(round, client, direction, PURPOSES[kind], size, _header_bytes(message), rows)

    def accept(self, replies: Replies, kind: str, round: int, client: int, answer: bytes | ClientFailed) -> None:
        """Put a reply where it belongs."""
        plan = self._plan
        try:
            if isinstance(answer, ClientFailed):
                raise ClientError(answer.reason)
            message = wire.decode(answer, plan.reply_layouts, self._names)
            if message.kind == "error":
                raise ClientError(message.text)
            if message.kind not in self._expected(kind) or message.round != round:
                raise ClientError(f"answered {message.kind!r} of round {message.round} to {kind!r} of round {round}")
            if message.arrays is None and (plan.reply_layouts.get(message.kind) or _EMPTY).specs:
                raise ClientError(f"answered {kind!r} without the arrays that belong to it")
            check_finite(message.report)
            if message.kind in _PLAIN:
                check_finite(message.arrays or {})
            replies.messages[client] = message
        except (WireError, ClientError) as error:
            replies.failed[client] = str(error)

    def _expected(self, kind: str) -> tuple[str, ...]:
        """Kinds of replies to a request."""
        return WAITS.get(kind, (kind,)) if self._plan.refreshes else (kind,)

    def _mail_bytes(self, direction: str, kind: str, message: bytes) -> int:
        """How many of a message's bytes are rows of nodes."""
        layouts = self._plan.request_layouts if direction == "down" else self._plan.reply_layouts
        layout = layouts.get(kind)
        if not self._plan.task.tables or layout is None:
            return 0
        mail = Layout(tuple(spec for spec in layout if spec.name.startswith(MAIL)))
        if not mail.specs:
            return 0
        try:
            arrays = wire.decode(message, layouts, self._plan.told if direction == "down" else self._names).arrays
        except WireError:
            return 0
        return wire.arrays_bytes(arrays, mail) if arrays is not None else 0

    @cached_property
    def _names(self) -> dict[str, tuple[str, ...]]:
        return {kind: self._plan.names(kind) for kind in wire.KINDS}


_EMPTY = Layout(())
_PLAIN = ("hello", "evaluate")
"""Replies whose arrays are numbers as they stand. An upload is looked at behind its codec, and a NaN that was measured
is what the model is worth."""


def check_finite(values: Mapping[str, float | Array]) -> None:
    """Raise `ClientError` for a number that is not finite."""
    for name, value in values.items():
        if not (finite(value) if isinstance(value, np.ndarray) else math.isfinite(value)):
            raise ClientError(f"{name} of the reply is not finite")


def _header_bytes(answer: bytes | ClientFailed) -> int:
    """Header bytes of a reply; 0 for what is no message, which is charged to its purpose as a whole."""
    try:
        return 0 if isinstance(answer, ClientFailed) else wire.header_bytes(answer)
    except WireError:
        return 0
