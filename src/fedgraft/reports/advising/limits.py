"""Limits of advice: work, counted in operations, and perhaps time; a run that passes one is stopped."""

import time
from dataclasses import dataclass
from typing import Final

from fedgraft.errors import FedgraftError

TERA: Final = 10**12
SURE_ROUNDS: Final = 3
"""After so many rounds the operations of a run are told from those so far."""
WORK, TIME = "--work", "--minutes"
"""The options that limit work and time."""


class StoppedError(FedgraftError):
    """A job that a limit has stopped.

    Args:
        limit: the option that sets it.
        spent: operations until then.
        needed: operations that the whole job would take, as far as it is known; 0 = not.
    """

    def __init__(self, limit: str, spent: int, needed: float = 0.0) -> None:
        super().__init__(f"stopped by {limit}")
        self.limit, self.spent, self.needed = limit, spent, needed


@dataclass(frozen=True)
class Limit:
    """The most that a job may take: so many operations, and until a moment of `time.monotonic()`; inf = no limit."""

    operations: float
    until: float

    @property
    def time_is_up(self) -> bool:
        """True once the moment has passed."""
        return time.monotonic() >= self.until

    def check(self, spent: int, share: float, sure: bool) -> None:
        """Raise `StoppedError` for a job that has taken so many operations for this share of all there is to do.

        What is counted is the same on any machine, however busy; `sure` says whether it already tells the rest.
        """
        needed = spent / share if share > 0 else float(spent)
        if sure and needed > self.operations:
            raise StoppedError(WORK, spent, needed)
        if self.time_is_up:
            raise StoppedError(TIME, spent)


def human_operations(count: float) -> str:
    """Return operations as a person reads them.

    >>> human_operations(3_400_000_000), human_operations(5e12)
    ('0.0034 TFLOP', '5 TFLOP')
    """
    return f"{count / TERA:.3g} TFLOP"
