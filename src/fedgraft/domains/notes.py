"""Notes to people on what was left out or assumed where data are read: warnings of the log "fedgraft.data"."""

import logging
from collections.abc import Iterable

LOG = logging.getLogger("fedgraft.data")


def tell(notes: Iterable[str], before: str = "") -> None:
    """Log notes, each behind the same text."""
    for note in notes:
        LOG.warning(f"{before}{note}")
