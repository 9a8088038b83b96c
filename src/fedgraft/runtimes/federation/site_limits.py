"""What a site gives a server at most: passes over its data, threads, time, masked ids, and choices in a recipe."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from types import FrameType
from typing import Any, Final

from fedgraft.errors import BeyondLimitError, InputError, require, unknown

AGAIN_SECONDS: Final = 1.0
"""Seconds until an order that went on is ended again, such as where a library has dropped what was raised."""


@dataclass(frozen=True)
class SiteLimits:
    """Limits of what a server can order, which a site sets for itself.

    Args:
        epochs: most that any option of a recipe which counts local epochs may say, >= 1; 1000.
        threads: most that `runtime.threads` of a recipe may say, >= 1; 64.
        seconds: most that an order may take, such as to train for a round, >= 0; 3600. What takes longer fails, and its
            client with it, for this round. 0 = no limit.
        points: ids of others, >= 0, that a run may have masked in private set intersection (`data.match = "psi"`);
            1048576.
        allow: options, as "section.option", and sections in which a server's recipe may differ from the node's own,
            beside those that are the server's in any case.
    """

    epochs: int = 1000
    threads: int = 64
    seconds: int = 3600
    points: int = 1 << 20
    allow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        allow = self.allow
        listed = isinstance(allow, list | tuple) and all(isinstance(each, str) for each in allow)
        require(listed, "limits.allow", 'a list of sections and options, such as ["training.epochs"]', allow)
        object.__setattr__(self, "allow", tuple(allow))
        for name, least in (("epochs", 1), ("threads", 1), ("seconds", 0), ("points", 0)):
            value = getattr(self, name)
            require(type(value) is int and value >= least, f"limits.{name}", f"a whole number >= {least}", value)

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "SiteLimits":
        """Return the limits in a table. Raises `InputError` for what is none."""
        names = [each.name for each in fields(cls)]
        for name in table:
            if name not in names:
                raise unknown("option of [limits]", name, names)
        return cls(**table)

    def check(self, recipe: Mapping[str, Any]) -> None:
        """Raise `InputError` for a recipe that orders more."""
        for name, value in _options(recipe):
            option = name.rpartition(".")[2]
            most = self.epochs if option.endswith("epochs") else self.threads if name == "runtime.threads" else None
            if most is not None and not (isinstance(value, int) and value <= most):
                limit = "threads" if option == "threads" else "epochs"
                raise InputError(f"{name} must be at most {most}, limits.{limit} of this node; got {value!r}.")

    @contextmanager
    def in_time(self) -> Iterator[None]:
        """Raise `BeyondLimitError` in a block that takes longer than `seconds`, between two steps of Python's own.

        In other threads than the main one, and on systems without SIGALRM, there is no limit.
        """
        here = threading.current_thread() is threading.main_thread()
        if not self.seconds or not here or not hasattr(signal, "setitimer"):
            yield
            return

        def end(number: int, frame: FrameType | None) -> None:
            raise BeyondLimitError(f"it took longer than {self.seconds} seconds, limits.seconds of this node")

        before = signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, self.seconds, AGAIN_SECONDS)
        try:
            try:
                yield
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        finally:  # also where the time was over just as the block was
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def _options(table: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield ("section.option", value) of all that a recipe says."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _options(value, f"{where}{name}.")
        else:
            yield f"{where}{name}", value
