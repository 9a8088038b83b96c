"""What one try of an attack came to, and calls that are watched: errors, seconds, memory."""

import re
import signal
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

Attack = Callable[[np.random.Generator, Path], Iterator["Outcome"]]
"""(a generator, an empty folder of its own) -> the outcome of each try."""
FAILURES: Final = ("crash", "hang", "memory", "wrong")
SECONDS: Final = 10.0
"""After which a call hangs; the machine may be busy."""


class Outcome(NamedTuple):
    """One try: "held", "refused" (as it should be) or one of `FAILURES`; `said` tells of a failure."""

    what: str
    said: str = ""


HELD: Final = Outcome("held")
REFUSED: Final = Outcome("refused")


class _Hang(BaseException):
    """What no `except Exception` catches."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """End what takes longer by an exception; in the main thread only."""

    def ring(number: int, frame: Any) -> None:
        raise _Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def outcome(
    call: Callable[[], str | None],
    refusals: tuple[type[Exception], ...],
    most_bytes: float = 0,
    seconds: float = SECONDS,
) -> Outcome:
    """Call, and tell what came of it.

    Args:
        call: returns what is wrong with its result, if anything.
        refusals: errors that it may raise.
        most_bytes: that Python and NumPy may take meanwhile; 0 = as many as they like.
        seconds: it may take.
    """
    if most_bytes:
        tracemalloc.start()
    try:
        with at_most(seconds):
            wrong = call()
        found = Outcome("wrong", wrong) if wrong else HELD
    except refusals as error:
        found = Outcome("crash", f"an empty error: {where(error)}") if not str(error) else REFUSED
    except _Hang as error:
        found = Outcome("hang", f"more than {seconds:g} s: {where(error)}")
    except Exception as error:
        found = Outcome("crash", where(error))
    peak = tracemalloc.get_traced_memory()[1] if most_bytes else 0
    if most_bytes:
        tracemalloc.stop()
    if peak > most_bytes and found in (HELD, REFUSED):
        return Outcome("memory", f"{peak:,} bytes, {most_bytes:,.0f} are the most")
    return found


def where(error: BaseException) -> str:
    """Return an error's type, its text, and the last line of fedgraft that it went through."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "fedgraft" in frame.filename]
    place = f" ({Path(ours[-1].filename).name}:{ours[-1].lineno})" if ours else ""
    return f"{type(error).__name__}: {str(error)[:200]}{place}"


def class_of(said: str) -> str:
    """A failure without its numbers, so that failures of one cause can be counted."""
    return re.sub(r"[0-9a-f]{8,}|[-+]?\d[\d.,e+-]*", "#", said)[:160]
