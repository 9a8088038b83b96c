"""The hub of a federation: which nodes are there, and the messages between them and the runs of the server.

It knows nothing of HTTP, and belongs to one event loop.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Final

from fedgraft.runtimes.federation.signed_requests import Claim, bare, node_id

ALIVE_SECONDS: Final = 15.0
"""How long a node counts as connected after its last request; one that is at work asks every few seconds."""
MOST_STRANGERS: Final = 1000
"""How many unknown keys are told of, each once: whoever asks with more fills no disk."""
MOST_NONCES: Final = 1000
"""How many of the last nonces a node may still sign to join: many ask for one at once."""
MOST_RUNS: Final = 100
"""How many runs that have ended are shown."""


class Refused(Exception):
    """A request is refused.

    Args:
        status: of HTTP.
        why: in words, for the node.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(eq=False)
class Message:
    """An order to a node, and what it answers.

    Args:
        node: whom it is for.
        order: its content; None once it was answered.
        answer: content of the answer; None while there is none.
        is_lost: whether there will be no answer.
    """

    node: int
    order: IO[bytes] | None
    answer: IO[bytes] | None = None
    is_lost: bool = False
    id: str = field(default_factory=lambda: secrets.token_hex(16))

    def end(self, answer: IO[bytes] | None = None) -> None:
        """Put an answer in the order's place, or nothing."""
        for content in (self.order, self.answer):
            if content is not None:
                content.close()
        self.order, self.answer, self.is_lost = None, answer, answer is None


@dataclass
class Seat:
    """A node that has joined.

    Args:
        key: by which it is known.
        session: of the process that has it now; "" where that has gone.
        number: of its last request.
        joined: when that was.
        seen: when it last asked, by the clock that only goes on.
        polls: requests in which it waits for an order.
        waiting: orders for it.
        taken: the order that it was given, and has not answered.
        change: is set when an order comes, or the seat goes.
    """

    key: str
    session: str
    joined: datetime
    number: int = 0
    seen: float = field(default_factory=time.monotonic)
    last: datetime = field(default_factory=lambda: datetime.now(UTC))
    polls: int = 0
    waiting: deque[Message] = field(default_factory=deque)
    taken: Message | None = None
    change: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_here(self) -> bool:
        """bool, whether the node is connected."""
        return bool(self.session) and (self.polls > 0 or time.monotonic() - self.seen < ALIVE_SECONDS)

    def note(self) -> None:
        """Note that the node is there."""
        self.seen, self.last = time.monotonic(), datetime.now(UTC)

    def gone(self) -> None:
        """End the session: the node has gone, and joins again where it is back."""
        self.session = ""
        self.change.set()


@dataclass
class Run:
    """A run whose process is connected; messages by their ids."""

    began: datetime
    ended: datetime | None = None
    messages: dict[str, Message] = field(default_factory=dict)
    change: asyncio.Event = field(default_factory=asyncio.Event)


class Hub:
    """Lets nodes in by their keys, and carries messages.

    Args:
        keys: reads {public key: name} of the nodes that may join; returns None where nodes have no keys.
    """

    def __init__(self, keys: Callable[[], Mapping[str, str] | None]) -> None:
        self._read_keys = keys
        self._keys = keys()
        self._nonces: dict[str, set[str]] = {}  # {nonce: keys that have used it}
        self._draw_nonce()
        self.seats: dict[int, Seat] = {}
        self.runs: dict[str, Run] = {}
        self._strangers: dict[str, None] = {}
        self._told, self._is_closed = 0, False

    @property
    def nonce(self) -> str:
        """The nonce that a node signs to join, which is good once for each key."""
        return next(reversed(self._nonces))

    def _draw_nonce(self) -> None:
        self._nonces[secrets.token_hex(16)] = set()
        while len(self._nonces) > MOST_NONCES:
            del self._nonces[next(iter(self._nonces))]

    def read_keys(self) -> None:
        """Read again who may join; a node that may not any more is refused from now on."""
        self._keys = self._read_keys()
        for node, seat in list(self.seats.items()):
            if self._keys is not None and seat.key not in self._keys:
                del self.seats[node]
                for message in [*seat.waiting, *filter(None, [seat.taken])]:
                    self._end(message)
                seat.change.set()

    def strangers(self) -> list[str]:
        """Return the unknown keys that have asked since the last such call; each is told of once."""
        new = list(self._strangers)[self._told :]
        self._told += len(new)
        return new

    # --- nodes -------------------------------------------------------------------------------------------------------

    def check(self, claim: Claim | None, path: str) -> Claim:
        """Return who asks. Raises `Refused` for whom the hub does not know by a key, or who has not signed."""
        if claim is None:
            raise Refused(401, "a request of a node is signed")
        if self._keys is None:
            return claim
        if claim.key not in self._keys:
            if len(self._strangers) < MOST_STRANGERS:
                self._strangers.setdefault(claim.key)
            raise Refused(401, "unknown key")
        if not claim.is_genuine(path):
            raise Refused(403, "the signature is not that of the key")
        return claim

    def join(self, claim: Claim) -> str:
        """Give a node a session. Raises `Refused` where another process with its key is connected."""
        if self._is_closed:
            raise Refused(503, "it is being stopped")
        used = self._nonces.get(claim.session)
        if used is None or claim.key in used:
            raise Refused(409, "sign what the server says")
        used.add(claim.key)  # whether it is let in or not: the same request is never good later
        self._draw_nonce()
        node = node_id(claim.key)
        before = self.seats.get(node)
        if before is not None and before.is_here:
            raise Refused(423, "a node with this key is connected already")
        seat = Seat(claim.key, secrets.token_hex(16), datetime.now(UTC))
        if before is not None:
            seat.waiting = before.waiting
            if before.taken is not None:
                seat.waiting.appendleft(before.taken)
            before.change.set()
        self.seats[node] = seat
        return seat.session

    def seat(self, claim: Claim) -> Seat:
        """Return the seat of a node. Raises `Refused` where it has none, or has sent this request before."""
        seat = self.seats.get(node_id(claim.key))
        if seat is None or seat.session != claim.session or claim.number <= seat.number:
            raise Refused(409, "join first")
        seat.number = claim.number
        seat.note()
        return seat

    def next_order(self, seat: Seat) -> Message | None:
        """Return what a node is to answer: what it was given before and has not answered, or what waits."""
        while (seat.taken is None or seat.taken.order is None) and seat.waiting:  # an order's run may have ended
            seat.taken = seat.waiting.popleft()
        if seat.taken is not None and seat.taken.order is None:
            seat.taken = None
        seat.change.clear()
        return seat.taken

    def holds(self, seat: Seat) -> bool:
        """Return whether a seat is still that of its node."""
        return bool(seat.session) and self.seats.get(node_id(seat.key)) is seat

    def unanswered(self, seat: Seat, message: str) -> Message | None:
        """Return a message of a node by its id, if it was not answered and its run goes on."""
        given = [each for each in [seat.taken, *seat.waiting] if each is not None and each.order is not None]
        return next((each for each in given if each.id == message), None)

    def answered(self, message: Message, answer: IO[bytes]) -> None:
        """Take the answer to a message, unless its run has ended meanwhile."""
        if message.order is None:
            answer.close()
            return
        self._end(message, answer)
        seat = self.seats.get(message.node)
        if seat is not None and seat.taken is message:
            seat.taken = None

    def close(self) -> None:
        """End all sessions, and begin none."""
        self._is_closed = True
        for seat in self.seats.values():
            seat.gone()

    # --- runs --------------------------------------------------------------------------------------------------------

    def begin(self, name: str) -> None:
        """Begin a run, or take it up. Raises `Refused` where it goes on already."""
        if name in self.runs and self.runs[name].ended is None:
            raise Refused(409, "this run is under way already")
        self.runs.pop(name, None)
        for old in [each for each, run in self.runs.items() if run.ended][: max(0, len(self.runs) - MOST_RUNS)]:
            del self.runs[old]
        self.runs[name] = Run(datetime.now(UTC))

    def end(self, name: str) -> None:
        """End a run: nothing of it is given to nodes, or kept."""
        run = self.runs[name]
        for message in run.messages.values():
            message.end()
        run.ended, run.messages = datetime.now(UTC), {}

    def send(self, name: str, node: int, order: IO[bytes]) -> Message | None:
        """Have an order given to a node; None where the node is not connected."""
        run, seat = self._running(name), self.seats.get(node)
        if seat is None:
            return None
        message = Message(node, order)
        run.messages[message.id] = message
        seat.waiting.append(message)
        seat.change.set()
        return message

    async def receive(self, name: str, messages: Collection[str], seconds: float) -> Message | None:
        """Return a message that was answered or is lost, of these, within so many seconds; each once."""
        until = time.monotonic() + seconds
        while True:
            run = self._running(name)
            run.change.clear()
            for each in messages:
                message = run.messages.get(each)
                if message is not None and (message.answer is not None or message.is_lost):
                    return run.messages.pop(each)
            try:
                await asyncio.wait_for(run.change.wait(), until - time.monotonic())
            except TimeoutError:
                return None

    def _running(self, name: str) -> Run:
        run = self.runs.get(name)
        if run is None or run.ended is not None:
            raise Refused(410, "this run is not under way")
        return run

    def _end(self, message: Message, answer: IO[bytes] | None = None) -> None:
        message.end(answer)
        for run in self.runs.values():
            if message.id in run.messages:
                run.change.set()

    def nodes(self) -> list[int]:
        """Return the ids of the nodes that are connected."""
        return [node for node, seat in self.seats.items() if seat.is_here]


def keys_of(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return {public key: name} of {name: content of its file}."""
    return {bare(content): name for name, content in files.items()}
