"""One process for each node's folder: two would answer one round twice, each by its own journal."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from fedgraft.errors import InputError

FILE: Final = "node.lock"
_PRIVATE: Final = 0o600


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a node's folder. The system lets go of it however this process ends.

    Raises `InputError` where another process holds it.
    """
    lock = FileLock(folder / FILE, timeout=0, mode=_PRIVATE)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(
            f"{folder} is in use: another node process runs from it. End that one first; a second node needs a folder "
            "of its own."
        ) from error
    except OSError as error:
        raise InputError(f"{folder / FILE} cannot be locked: {error.strerror or error}.") from error
    try:
        yield
    finally:
        lock.release()
