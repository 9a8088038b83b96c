"""Signals that ask a process to end: Ctrl-C, SIGTERM (schedulers, containers) and SIGHUP (a terminal that is closed).

The first lets a run end its round and store it. A second one, and the first anywhere else, ends the process at once.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeAlias

ENDING = tuple(signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if name in signal.Signals.__members__)
"""Signals that ask a process to end, as far as the system has them."""
Handler: TypeAlias = Callable[[int, FrameType | None], object]


class Terminated(SystemExit):
    """A signal that is not Ctrl-C has ended the process, whose exit code is 128 and the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


class Asked:
    """The signal that asked the process to end; 0 = none."""

    def __init__(self) -> None:
        self.number = 0
        self._waits = True

    def __bool__(self) -> bool:
        return bool(self.number)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Have even the first signal end the process at once, also one that has come already."""
        self._waits = False
        try:
            if self:
                interrupt(self.number, None)
            yield
        finally:
            self._waits = True

    def note(self, number: int, frame: FrameType | None) -> None:
        """A handler: the first signal waits, where it may."""
        if self or not self._waits:
            interrupt(number, frame)
        self.number = number


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise what belongs to a signal: `KeyboardInterrupt` or `Terminated`."""
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)


def handle(handler: Handler) -> dict[int, Any]:
    """Have a function handle these signals, in the main thread; in others nothing changes.

    A signal that is ignored (nohup) or that the user's own program handles stays as it is; Ctrl-C never does.

    Returns:
        {signal: what handled it before}, of those that the function handles now.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    usual, before = (signal.SIG_DFL, interrupt), {number: signal.getsignal(number) for number in ENDING}
    taken: dict[int, Any] = {
        n: was for n, was in before.items() if was in usual or (n == signal.SIGINT and was is not None)
    }
    for number in taken:
        signal.signal(number, handler)
    return taken


@contextmanager
def deferred() -> Iterator[Asked]:
    """Note the first of these signals; a second one ends the process at once."""
    stop_signal = Asked()
    before = handle(stop_signal.note)
    try:
        yield stop_signal
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave() -> None:
    """Have these signals end the process without a word: it has nothing left to do but to go."""
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def ignore() -> None:
    """Leave these signals to the parent process, which may store its run first."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def text_of(number: int) -> str:
    """Return the words for a signal: "Interrupted" or "Ended by SIGTERM"."""
    return "Interrupted" if number == signal.SIGINT else f"Ended by {signal.Signals(number).name}"
