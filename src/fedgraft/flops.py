"""How many floating-point operations products take: counted where they are executed, a multiply-add as two."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Meter:
    """What has been counted so far."""

    flops: int = 0


_meters: list[Meter] = []


def count(multiply_adds: int) -> None:
    """Note so many multiply-adds, if anybody is counting."""
    if _meters:
        _meters[-1].flops += 2 * multiply_adds


@contextmanager
def metered() -> Iterator[Meter]:
    """Count what this process executes meanwhile; what is counted within an inner one belongs to that alone."""
    meter = Meter()
    _meters.append(meter)
    try:
        yield meter
    finally:
        _meters.remove(meter)
