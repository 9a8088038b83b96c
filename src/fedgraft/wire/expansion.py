"""Bound how much a message may stand for: a codec asks here before it makes room for what a sender announces."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fedgraft.errors import WireError

_MOST: ContextVar[tuple[int, str] | None] = ContextVar("most bytes that a message stands for", default=None)


@contextmanager
def at_most(size: int, parameter: str) -> Iterator[None]:
    """Limit the bytes that arrays of a message decoded here take once decoded; errors call the limit `parameter`."""
    before = _MOST.set((size, parameter))
    try:
        yield
    finally:
        _MOST.reset(before)


def check(size: int) -> None:
    """Raise `WireError` for arrays of so many bytes where the limit is lower; outside of `at_most` there is none."""
    most = _MOST.get()
    if most is not None and size > most[0]:
        raise WireError(f"what it says takes {size} bytes once decoded, {most[1]} = {most[0]}")
