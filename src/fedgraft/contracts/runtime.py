"""Where? The contract of runtimes."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from fedgraft.contracts.values import ClientFailed


class Runtime(ABC):
    """Carry messages between the server and the clients: worker processes, a simulator, other machines."""

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

        The set-up message that client k keeps as it came is yielded under ~k.
        """

    @abstractmethod
    def restore(self, memories: Mapping[int, bytes]) -> None:
        """Put memories of a checkpoint back."""

    @abstractmethod
    def close(self) -> None:
        """Release every resource; safe to call twice."""
