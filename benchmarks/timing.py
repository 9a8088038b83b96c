"""Times of variants that do the same work, taken in turns so that a machine's moods fall on all of them alike."""

import multiprocessing as mp
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from statistics import median
from types import TracebackType
from typing import Any, Self

import torch

Round = Callable[[int], object]
"""Does one round's work; rounds are numbered from 1, and equal numbers mean equal work.

It returns the seconds that this took if it has timed itself, anything but a float if not.
"""


def in_turns(variants: Mapping[str, Round], repeats: int, warm_up: int = 1) -> dict[str, list[float]]:
    """Seconds of every round of every variant, after `warm_up` rounds that do not count.

    Each round is done by all variants before the next one begins, every other time in reverse order.
    """
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(1, warm_up + repeats + 1):
        for name in sorted(variants, reverse=number % 2 == 0):
            began = time.perf_counter()
            timed = variants[name](number)
            elapsed = time.perf_counter() - began
            if number > warm_up:
                seconds[name].append(timed if isinstance(timed, float) else elapsed)
    return seconds


def ratio(seconds: Mapping[str, list[float]], over: str, under: str) -> float:
    """The median over rounds of `over` / `under`: both terms of each did the same work within a moment."""
    return median(a / b for a, b in zip(seconds[over], seconds[under], strict=True))


class Apart:
    """A variant in a process of its own, one thread, where nothing is set as our runtime sets it.

    Our allocator keeps what is freed (`fedgraft.engine.allocator`): beside ours, in one process, a loop without it
    would have that from us.

    Args:
        make: called there; what it returns has a method `round`.
        arguments: of `make`.
    """

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make, arguments), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()

    def round(self, number: int) -> float:
        """One round there; the seconds that it took, without the pipe."""
        self._pipe.send(number)
        seconds: float = self._pipe.recv()
        return seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.close()
        self._process.join()


def _serve(pipe: Connection, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    variant = make(*arguments)
    pipe.send("ready")
    while True:
        try:
            number = pipe.recv()
        except EOFError:
            return
        began = time.perf_counter()
        variant.round(number)
        pipe.send(time.perf_counter() - began)
