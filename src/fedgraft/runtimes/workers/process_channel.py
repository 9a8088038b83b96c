"""Workers that are processes of this machine, behind a pipe each."""

from collections.abc import Collection, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from fedgraft.engine.client.client import Given
from fedgraft.engine.plan import Plan
from fedgraft.engine.protocol.table import OUTSIDE
from fedgraft.errors import FedgraftError
from fedgraft.runtimes.workers.channel import Channel, Channels
from fedgraft.runtimes.workers.shared_memory import Blob, lasting, receive, send, shared, want_files
from fedgraft.runtimes.workers.starting import OUT_OF_MEMORY, UNKNOWN, ending, not_started, start, unreadable
from fedgraft.runtimes.workers.worker import work

_ENDED_SECONDS = 5.0
"""How long the system may take to tell how a process ended."""


class ProcessChannel(Channel):
    """A worker process, and the pipe to it."""

    def __init__(self, process: BaseProcess, pipe: Connection) -> None:
        self.process, self.pipe = process, pipe

    def send(self, *values: Any) -> None:
        """Send some values, blocks among them."""
        send(self.pipe, *values)

    def receive(self) -> tuple[Any, ...]:
        """Return what it sent."""
        return receive(self.pipe)

    def poll(self) -> bool:
        """Return whether it has sent something or is gone."""
        return self.pipe.poll()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.join()

    def close(self) -> None:
        """Close the pipe, by which it ends."""
        self.pipe.close()

    def join(self, seconds: float) -> None:
        """Wait until it has ended; kill it where it takes longer."""
        self.process.join(timeout=seconds)
        if self.process.is_alive():
            self.kill()

    def ending(self, lacked: str) -> str:
        """Return how it ended."""
        self.process.join(timeout=_ENDED_SECONDS)
        return ending(self.process, lacked)

    @property
    def unreadable(self) -> bool:
        """True where it ended by itself, for another reason than too little memory."""
        code = self.process.exitcode
        return code is not None and code > 0 and code not in (OUT_OF_MEMORY, UNKNOWN)


class ProcessChannels(Channels):
    """Starts worker processes of this machine."""

    option = "runtime.workers"

    def __init__(self, plan: Plan, shards: Given, threads: int) -> None:
        self._arguments = (plan, shards, threads, dict(OUTSIDE))
        want_files()

    def open(self, again: bool) -> ProcessChannel:
        """Start a process."""
        return ProcessChannel(*start(work, self._arguments))

    def wait(self, channels: Sequence[Channel], timeout_seconds: float | None) -> Collection[Channel]:
        """Return those with something to receive."""
        pipes = {channel.pipe: channel for channel in channels if isinstance(channel, ProcessChannel)}
        return [pipes[pipe] for pipe in wait(list(pipes), timeout_seconds) if isinstance(pipe, Connection)]

    def shared(self, parts: list[bytes | memoryview]) -> Blob:
        """Return all parts, one behind the other, in memory that processes share where they are many."""
        return shared(parts)

    def lasting(self, blob: object) -> bool:
        """Return whether the bytes are in memory that both ends have; what is smaller is sent every time."""
        return lasting(blob)

    def not_started(self, why: str) -> FedgraftError:
        """Return the error for a process that does not start."""
        return not_started(why)

    def unreadable(self, why: str) -> FedgraftError:
        """Return the error for processes that cannot read what they are sent."""
        return unreadable(why)
