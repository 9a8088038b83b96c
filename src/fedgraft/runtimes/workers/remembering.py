"""Keep the clients' memories in the runtime itself, and hand them to whoever serves a client."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fedgraft.contracts import ClientFailed, Runtime
from fedgraft.engine.client.client_memory import Memory, packed
from fedgraft.runtimes.workers.pool import Answered
from fedgraft.runtimes.workers.shared_memory import Blob, bytes_of


class Remembering(Runtime):
    """A runtime whose clients' memories are in this process."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._memories: dict[int, Memory | Blob] = {}
        self._set_ups: dict[int, Blob] = {}
        self._changed: set[int] = set()
        self._flops: dict[int, int] = {}
        self._reasons: dict[int, str] = {}

    def clients(self) -> Sequence[int]:
        """Return the clients' indices."""
        return range(self._count)

    def exchange(
        self, requests: Mapping[int, bytes], limits: Mapping[int, int], deadline_seconds: float | None
    ) -> dict[int, bytes | ClientFailed]:
        """Serve every request; a reply beyond its limit or a deadline passed fails that client."""
        return accepted(self._counted(self._serve(requests, {}, deadline_seconds)), limits, self._remember)

    def measure(
        self, requests: Mapping[int, bytes], models: Mapping[int, bytes], deadline_seconds: float | None
    ) -> dict[int, bytes | ClientFailed]:
        """Serve every request, however much there is to reply; a deadline passed fails that client."""
        return accepted(self._counted(self._serve(requests, models, deadline_seconds)), {}, self._remember)

    def flops(self) -> dict[int, int]:
        """Operations since the last such call."""
        spent, self._flops = self._flops, {}
        return spent

    def reasons(self) -> dict[int, str]:
        """Return why replies to the last requests are errors, in the clients' own words."""
        return dict(self._reasons)

    def memories(self, changed: bool = True) -> Iterator[tuple[int, bytes]]:
        """Memories, and what was kept apart from them: those that changed since the last such call, or all."""
        known = {**self._memories, **{~client: set_up for client, set_up in self._set_ups.items()}}
        clients = sorted(self._changed if changed else known)
        if changed:
            self._changed = set()
        return ((client, _bytes(known[client])) for client in clients)

    def restore(self, memories: Mapping[int, bytes]) -> None:
        """Put memories of a checkpoint back."""
        kept = {client: self._shared(memory) for client, memory in memories.items()}
        self._memories = {client: memory for client, memory in kept.items() if client >= 0}
        self._set_ups = {~client: set_up for client, set_up in kept.items() if client < 0}
        self._changed = set()

    @abstractmethod
    def _serve(
        self, requests: Mapping[int, bytes], models: Mapping[int, bytes], deadline_seconds: float | None
    ) -> dict[int, Answered | ClientFailed]:
        """Have every request served."""

    def _shared(self, memory: bytes) -> Blob:
        """Return a memory as those who serve are best handed it."""
        return memory

    def _memory_of(self, client: int) -> Memory | Blob:
        return self._memories.get(client, b"")

    def _set_up_of(self, client: int) -> Blob:
        return self._set_ups.get(client, b"")

    def _remember(self, client: int, answer: Answered) -> None:
        if answer.memory is not self._memory_of(client):
            self._memories[client] = answer.memory
            self._changed.add(client)

    def _counted(self, answers: dict[int, Answered | ClientFailed]) -> dict[int, Answered | ClientFailed]:
        """The answers, whose operations are counted, and whose requests are kept where they must be."""
        self._reasons = {}
        for client, answer in answers.items():
            if isinstance(answer, Answered):
                if answer.reason:
                    self._reasons[client] = answer.reason
                if answer.flops:
                    self._flops[client] = self._flops.get(client, 0) + answer.flops
                if answer.kept is not None:
                    self._set_ups[client] = answer.kept
                    self._changed.add(~client)
        return answers


def accepted(
    answers: Mapping[int, Any], limits: Mapping[int, int], take: Callable[[int, Any], None]
) -> dict[int, bytes | ClientFailed]:
    """Return {client: its reply, or why it failed}; `take` hears of each answer whose reply is within its limit."""
    replies: dict[int, bytes | ClientFailed] = {}
    for client, answer in answers.items():
        if isinstance(answer, ClientFailed):
            replies[client] = answer
        elif client in limits and len(answer.reply) > limits[client]:
            replies[client] = too_long(len(answer.reply), limits[client])
        else:
            replies[client] = answer.reply
            take(client, answer)
    return replies


def too_long(size: int, limit: int) -> ClientFailed:
    """Return the failure of a client whose reply has more bytes than it may."""
    return ClientFailed(f"a reply of {size} bytes where at most {limit} are allowed", limit)


def _bytes(memory: Memory | Blob) -> bytes:
    return packed(memory) if isinstance(memory, dict) else bytes_of(memory)
