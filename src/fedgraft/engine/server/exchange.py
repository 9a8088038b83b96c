"""One exchange: requests out, replies in, no reply trusted, every byte charged.

Whatever is wrong with a reply (an error, a wrong kind, round or layout, random bytes, NaN) becomes a reason in
`failed`; only finite arrays of the agreed layout come out.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedgraft import wire
from fedgraft.contracts import ClientFailed, Runtime
from fedgraft.engine.plan import AFTER, HALO, SCORES, Plan
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.table import TABLE
from fedgraft.engine.server.ledger import Ledger
from fedgraft.errors import ClientError, WireError, printable
from fedgraft.wire import Message
from fedgraft.wire.layouts import Array, Arrays, Layout, finite

PAUSES = {"train": ("train", "wait"), "rows": ("train", "wait")}
"""{kind of request: kinds of replies} where clients may pause in a round; other replies are of the request's kind."""


class Traffic(NamedTuple):
    """Bytes of a client's messages, in both directions."""

    down: int = 0
    up: int = 0

    @property
    def total(self) -> int:
        """int, both directions."""
        return self.down + self.up

    def plus(self, other: "Traffic") -> "Traffic":
        """Return the bytes of both."""
        return Traffic(self.down + other.down, self.up + other.up)


@dataclass(frozen=True)
class Replies:
    """Replies to one exchange of requests.

    `messages` are {client: accepted reply}, `failed` {client: reason}, `bytes` {client: `Traffic` of its request and
    reply}, and `waits` {client: number of pauses}, of clients that paused.
    """

    messages: Mapping[int, Message] = field(default_factory=dict)
    failed: Mapping[int, str] = field(default_factory=dict)
    bytes: Mapping[int, Traffic] = field(default_factory=dict)
    waits: Mapping[int, int] = field(default_factory=dict)

    def without(self, refused: Mapping[int, str]) -> "Replies":
        """Return the replies with those of {client: reason} refused."""
        if not refused:
            return self
        messages = {client: message for client, message in self.messages.items() if client not in refused}
        return replace(self, messages=messages, failed={**self.failed, **refused})


def together(*parts: Replies) -> Replies:
    """Return the last replies, with all failures and bytes of those before."""
    failed: dict[int, str] = {}
    moved: dict[int, Traffic] = {}
    waits: dict[int, int] = {}
    for part in parts:
        failed.update(part.failed)
        waits.update(part.waits)
        for client, traffic in part.bytes.items():
            moved[client] = moved.get(client, Traffic()).plus(traffic)
    return Replies(parts[-1].messages, failed, moved, waits)


class Exchange:
    """Send requests over a runtime.

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
        halo_bytes: Mapping[int, int] | None = None,
    ) -> Replies:
        """Exchange requests of a kind, {client: message}; replies are of that kind, but where `PAUSES` allows another.

        `limits` are {client: most bytes of its reply}; the runtime holds clients to it. The bytes are entered into the
        ledger where they are `charged`. `halo_bytes`, {client: bytes of halo rows in its request}, are read after the
        exchange; None = none.
        """
        answers = self._runtime.exchange(requests, limits, self._deadline_seconds)
        reasons = self._runtime.reasons()
        messages: dict[int, Message] = {}
        failed: dict[int, str] = {}
        moved: dict[int, Traffic] = {}
        for client, request in requests.items():
            answer = answers.get(client, ClientFailed("no reply"))
            message, reason = self._opened(kind, round, answer, reasons.get(client, ""))
            if reason:
                failed[client] = reason
            elif message is not None:
                messages[client] = message
            size = answer.bytes_up if isinstance(answer, ClientFailed) else len(answer)
            moved[client] = Traffic(len(request), size)
            if charged:
                self.charge(round, client, "down", kind, request, (halo_bytes or {}).get(client, 0))
                replied = kind if reason or message is None else message.kind
                self._charge_reply(round, client, replied, answer, message)
        return Replies(messages, failed, moved)

    def measure(self, kind: str, round: int, requests: Mapping[int, bytes], models: Mapping[int, bytes]) -> Replies:
        """Exchange the experimenter's own requests of one kind, {client: message}, outside the protocol and free.

        `models` are {client: a message with the model to score}.
        """
        answers = self._runtime.measure(requests, models, self._deadline_seconds)
        reasons = self._runtime.reasons()
        opened = {
            c: self._opened(kind, round, answers.get(c, ClientFailed("no reply")), reasons.get(c, "")) for c in requests
        }
        messages = {client: message for client, (message, reason) in opened.items() if message and not reason}
        return Replies(messages, {client: reason for client, (_, reason) in opened.items() if reason})

    def charge(self, round: int, client: int, direction: str, kind: str, message: bytes, halo: int = 0) -> None:
        """Enter a message: its header, its halo rows, and the rest under the purpose of its kind."""
        header = wire.header_bytes(message)
        self._ledger.charge(round, client, direction, TABLE[kind].purpose, len(message), header, halo)

    def _charge_reply(
        self, round: int, client: int, kind: str, answer: bytes | ClientFailed, message: Message | None
    ) -> None:
        if message is not None and isinstance(answer, bytes):
            self.charge(round, client, "up", kind, answer, self._halo_bytes(message))
            return
        # Bytes that are no message are charged to the request's purpose as a whole, but for a header that can be read.
        size, header = (answer.bytes_up, 0) if isinstance(answer, ClientFailed) else (len(answer), _header(answer))
        self._ledger.charge(round, client, "up", TABLE[kind].purpose, size, header)

    def _opened(
        self, kind: str, round: int, answer: bytes | ClientFailed, own_reason: str = ""
    ) -> tuple[Message | None, str]:
        """The decoded reply, None for what is none, and why it is refused; "" for a reply that is accepted.

        An error has a code, or `own_reason`, which has it in words where the runtime knows.
        """
        plan, message = self._plan, None
        try:
            if isinstance(answer, ClientFailed):
                raise ClientError(answer.reason)
            message = wire.decode(answer, Protocol.of(plan).reply_layouts, self._names)
            if message.kind == "error":
                raise ClientError(own_reason or message.text)
            if message.kind not in self._expected(kind) or message.round != round:
                raise ClientError(f"answered {message.kind!r} of round {message.round} to {kind!r} of round {round}")
            if message.arrays is None and (Protocol.of(plan).reply_layouts.get(message.kind) or _EMPTY).specs:
                raise ClientError(f"answered {kind!r} without the arrays that belong to it")
            check_finite({name: value for name, value in message.report.items() if name not in SCORES})
            if message.kind in _PLAIN:
                check_finite(
                    {name: array for name, array in (message.arrays or {}).items() if not name.startswith(AFTER)}
                )
        except (WireError, ClientError) as error:
            return message, printable(str(error)) or NO_REASON  # a client wrote some of it, or nothing
        return message, ""

    def _expected(self, kind: str) -> tuple[str, ...]:
        """Kinds of replies to a request."""
        return PAUSES.get(kind, (kind,)) if self._plan.refreshes else (kind,)

    def _halo_bytes(self, message: Message) -> int:
        return halo_bytes(message.arrays, Protocol.of(self._plan).reply_layouts.get(message.kind))

    @cached_property
    def _names(self) -> dict[str, tuple[str, ...]]:
        return Protocol.of(self._plan).reply_names


NO_REASON = "failed, and gave no reason"
_EMPTY = Layout(())
_PLAIN = ("hello", "evaluate", "smoothed")
"""Kinds of replies whose arrays are numbers as they stand. An upload is checked behind its codec. A NaN that was
measured is the score of the model, and one among the sums of `AFTER` says that local steps have failed."""


def halo_bytes(arrays: Arrays | None, layout: Layout | None) -> int:
    """Return how many bytes of a message are halo rows, given its arrays and their layout."""
    if arrays is None or layout is None:
        return 0
    rows = Layout(tuple(spec for spec in layout if spec.name.startswith(HALO)))
    return wire.arrays_bytes(arrays, rows) if rows.specs else 0


def check_finite(values: Mapping[str, float | Array]) -> None:
    """Raise `ClientError` for a number that is not finite."""
    for name, value in values.items():
        if not (finite(value) if isinstance(value, np.ndarray) else math.isfinite(value)):
            raise ClientError(f"{name} of the reply is not finite")


def _header(answer: bytes) -> int:
    try:
        return wire.header_bytes(answer)
    except WireError:
        return 0
