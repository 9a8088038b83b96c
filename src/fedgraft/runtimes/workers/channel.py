"""The pool's end of a worker: what is sent to it, what comes back, and how it ends."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from fedgraft.errors import FedgraftError
from fedgraft.runtimes.workers.shared_memory import Blob


class Channel(ABC):
    """A worker that lives elsewhere; it takes one request at a time."""

    @abstractmethod
    def send(self, *values: Any) -> None:
        """Send some values. Raises `OSError` where the worker is gone."""

    @abstractmethod
    def receive(self) -> tuple[Any, ...]:
        """Return what the worker sent. Raises `EOFError` or `OSError` where it is gone."""

    @abstractmethod
    def poll(self) -> bool:
        """Return whether the worker has sent something or is gone."""

    @abstractmethod
    def kill(self) -> None:
        """End the worker at once; safe to call twice."""

    @abstractmethod
    def close(self) -> None:
        """Release this end, by which a worker ends that is not at work; it is not waited for."""

    @abstractmethod
    def join(self, seconds: float) -> None:
        """Wait until a closed worker has ended; it is killed where it takes longer than that."""

    @abstractmethod
    def ending(self, lacked: str) -> str:
        """Return how the worker ended, in words.

        Args:
            lacked: what it said of too little memory; "" for nothing.
        """

    @property
    @abstractmethod
    def unreadable(self) -> bool:
        """True where it ended since it could not read what it was sent first."""


class Channels(ABC):
    """Starts workers of one kind.

    Attributes:
        option: of the recipe that says how many there are.
    """

    option: ClassVar[str]

    @abstractmethod
    def open(self, again: bool) -> Channel:
        """Start a worker; what it sends first says that it is ready.

        Args:
            again: whether it takes the place of one that is gone.

        Raises `MachineError` where there is none to be had.
        """

    @abstractmethod
    def wait(self, channels: Sequence[Channel], timeout_seconds: float | None) -> Collection[Channel]:
        """Return those that have sent something or are gone, as soon as there is one; None waits for ever."""

    @abstractmethod
    def shared(self, parts: list[bytes | memoryview]) -> Blob:
        """Return all parts, one behind the other, as workers are best sent them."""

    @abstractmethod
    def lasting(self, blob: object) -> bool:
        """Return whether a worker that was sent these bytes still has them, so that they need not be sent again."""

    @abstractmethod
    def not_started(self, why: str) -> FedgraftError:
        """Return the error for a worker that does not start."""

    @abstractmethod
    def unreadable(self, why: str) -> FedgraftError:
        """Return the error for workers that begin and cannot read what they are sent."""
