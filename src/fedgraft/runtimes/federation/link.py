"""Carry orders to nodes and answers back, whatever carries them."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import NamedTuple


class Arrived(NamedTuple):
    """What came back for a message of this id; the content is None where there is no answer and none will come."""

    message: str
    node: int
    content: bytes | None


class Link(ABC):
    """The way to the nodes. Raises `MachineError` where it is cut."""

    @abstractmethod
    def nodes(self) -> Collection[int]:
        """Return the ids of the nodes that are connected."""

    @abstractmethod
    def send(self, node: int, content: bytes) -> str | None:
        """Send a message and return its id; None where it was not taken."""

    @abstractmethod
    def receive(self, messages: Collection[str], seconds: float = 0.0) -> Sequence[Arrived]:
        """Return what has come back for some messages, each once; wait at most so many seconds for the first."""

    @abstractmethod
    def close(self) -> None:
        """Release every resource; safe to call twice."""
