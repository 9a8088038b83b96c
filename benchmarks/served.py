"""A federation in a process of its own, so that peak memory is that of one alone; told what to do over a pipe."""

import multiprocessing as mp
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


class ServedReply:
    """A federation in a process of its own.

    Args:
        serve: what the process does, with its end of the pipe and the size: it tells of the set-up, of every round
            whose number it hears, and of the end when that is 0.
        size: of the federation.

    Attributes:
        told: what its set-up took.
        rounds: what each round took.
    """

    def __init__(self, serve: Callable[[Connection, Any], None], size: Any) -> None:
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, size))
        self._process.start()
        theirs.close()
        self.rounds: list[dict[str, float]] = []
        try:
            self.told: dict[str, float] = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise RuntimeError(f"{size} ended with exit code {self._process.exitcode}") from None

    def round(self, number: int) -> None:
        """Round `number`, the next one."""
        self._pipe.send(number)
        self.rounds.append(self._pipe.recv())

    def close(self) -> dict[str, float]:
        """End it; what it took in all."""
        self._pipe.send(0)
        last: dict[str, float] = self._pipe.recv()
        self._process.join()
        return last

    def __enter__(self) -> "ServedReply":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()
