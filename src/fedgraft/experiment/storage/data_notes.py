"""Notes on data that loading them tells, left out where they were told before."""

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
