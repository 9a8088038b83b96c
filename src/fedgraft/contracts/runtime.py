"""Where? The contract of runtimes."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge

from fedgraft.contracts.ranges import PositiveInt, check_ranges
from fedgraft.contracts.values import ClientFailed
from fedgraft.errors import require

FINGERPRINT_BYTES: Final = 16


class Runtime(ABC):
    """Carry messages between the server and the clients: worker processes, a cluster, other machines."""

    @abstractmethod
    def clients(self) -> Sequence[int]:
        """Return the clients' indices, ascending from 0."""

    @abstractmethod
    def exchange(
        self, requests: Mapping[int, bytes], limits: Mapping[int, int], deadline_seconds: float | None
    ) -> dict[int, "bytes | ClientFailed"]:
        """Deliver one request to each client and collect the replies.

        Args:
            requests: {client: message}; equal messages may be one object.
            limits: {client: most bytes of its reply}; a longer reply fails that client.
            deadline_seconds: wall seconds to wait for each client; None waits for ever.
        """

    @abstractmethod
    def measure(
        self, requests: Mapping[int, bytes], models: Mapping[int, bytes], deadline_seconds: float | None
    ) -> "dict[int, bytes | ClientFailed]":
        """Deliver the experimenter's requests, such as a look at held-out data: outside the protocol, never charged.

        Args:
            requests: {client: message}.
            models: {client: a message with the model to score}; equal ones may be one object, handed over once.
            deadline_seconds: wall seconds to wait for each client; None waits for ever.
        """

    def flops(self) -> dict[int, int]:
        """Return {client: operations of its products since the last call}: the experimenter's count, never sent."""
        return {}

    def reasons(self) -> dict[int, str]:
        """Return {client: why its reply to the last requests is an error}, as its machine has it in words.

        The experimenter's, never sent: a client's error travels as a code. {} where clients are on other machines.
        """
        return {}

    @abstractmethod
    def memories(self, changed: bool = True) -> Iterator[tuple[int, bytes]]:
        """Yield (client, memory) for those that changed since the last such call, or for all.

        The set-up message that client k keeps as it came is yielded under ~k. Where clients keep their memories
        themselves, what is yielded in a memory's place is its fingerprint.
        """

    def forgotten(self) -> frozenset[int]:
        """Return the clients whose memory was lost since the last call: they go on as new."""
        return frozenset()

    @abstractmethod
    def restore(self, memories: Mapping[int, bytes]) -> None:
        """Put memories of a checkpoint back."""

    @abstractmethod
    def close(self) -> None:
        """Release every resource; safe to call twice."""


@dataclass(frozen=True)
class RuntimeOptions(ABC):
    """Options of a runtime: where clients live.

    Args:
        threads: torch threads of whatever serves clients, >= 1; sums depend on them.
        device: "cpu" or "cuda".
        deadline_seconds: how long to wait for a client; 0 = for ever.
        portable: whether the same bits are wanted on every x86-64 processor with AVX2, on "cpu"; slower, and but for
            `torch.sqrt`. Without it, a processor's bits are its own.
    """

    threads: PositiveInt = 1
    device: Literal["cpu", "cuda"] = "cpu"
    deadline_seconds: Annotated[float, Ge(0), "0 = for ever"] = 0.0
    portable: bool = False

    def __post_init__(self) -> None:
        check_ranges(self, "runtime")
        require(not self.portable or self.device == "cpu", "runtime.portable", "false on a device", self.portable)

    def fingerprints(self, memories: Mapping[int, bytes]) -> dict[int, bytes]:
        """Return {client: fingerprint} of what such a runtime's `memories` yielded."""
        return {client: fingerprint(memory) for client, memory in memories.items() if client >= 0}

    @abstractmethod
    def start(self, plan: Any, shards: Sequence[Any]) -> Runtime:
        """Start a runtime for the plan that both ends agreed on, with every client's own shard, by client index.

        Raises `InputError` where a package is missing that it needs, and `MachineError` where it cannot be started.
        """


def fingerprint(memory: bytes) -> bytes:
    """Return the fingerprint of what a client remembers."""
    return hashlib.blake2b(memory, digest_size=FINGERPRINT_BYTES).digest()
