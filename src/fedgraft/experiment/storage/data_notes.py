"""Notes on data that reading them tells: left out where they were told before, or heard by who passes them on."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_notes() -> Iterator[None]:
    """Leave out what loading notes on data."""
    log = logging.getLogger("fedgraft.data")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


class _Heard(logging.Handler):
    """Lists what is told."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.notes: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """List a note."""
        self.notes.append(record.getMessage())


@contextmanager
def heard_notes() -> Iterator[list[str]]:
    """Yield a list of the notes on data that are told meanwhile; they are told as ever."""
    log, heard = logging.getLogger("fedgraft.data"), _Heard()
    log.addHandler(heard)
    try:
        yield heard.notes
    finally:
        log.removeHandler(heard)
