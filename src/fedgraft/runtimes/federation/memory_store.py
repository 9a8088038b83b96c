"""Keep a node's client on disk: memories by keyed names, the set-up message, the round that waits."""

import logging
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from fedgraft.contracts.runtime import FINGERPRINT_BYTES, fingerprint
from fedgraft.engine.protocol.transport import keyed
from fedgraft.runtimes.federation.folders import replace_private

LOG = logging.getLogger("fedgraft.node")
RUNS: Final = 3
"""Of how many runs a node keeps what its client remembers; the oldest goes first."""
_SUFFIX: Final = ".bin"
_LENGTH: Final = 8
"""Hexadecimal digits of the length before each request of a round."""


class MemoryStore:
    """The memories of one client in one run, and messages of the server; each is a file, and never changed.

    A memory is named by its content under a key of the site and the run, since the server is told the name: who lacks
    the key can try no data until the name fits. A message of the server is named by its fingerprint, which the server
    can compute itself.

    A file is complete or not there: it is written beside its place, flushed to disk and renamed. Its name is checked
    against its content when it is read, so that a damaged one counts as lost. Only the owner can read the files.

    Args:
        folder: of the run; made when something is kept.
        key: of the site and the run; b"" = none, as in a simulation, whose owner has all data. Names are fingerprints
            there.
    """

    def __init__(self, folder: Path, key: bytes = b"") -> None:
        self._folder, self._key = folder, key

    def load(self, name: bytes) -> bytes | None:
        """Return the memory of a name; b"" for none, None where it is not there, or damaged."""
        return self._load(name, self._name)

    def load_message(self, name: bytes) -> bytes | None:
        """Return the message of the server that has a fingerprint, as `load` does."""
        return self._load(name, fingerprint)

    def keep(self, content: bytes) -> bytes:
        """Store a memory and return its name. Raises `MachineError` where the disk does not take it."""
        return self._keep(content, self._name)

    def keep_message(self, content: bytes) -> bytes:
        """Store a message of the server and return its fingerprint. Raises `MachineError` as `keep`."""
        return self._keep(content, fingerprint)

    def _name(self, content: bytes) -> bytes:
        return keyed(self._key, "memory", content) if self._key else fingerprint(content)

    def _load(self, name: bytes, named: Callable[[bytes], bytes]) -> bytes | None:
        if not name:
            return b""
        with suppress(OSError):
            content = self._path(name).read_bytes()
            return content if named(content) == name else None
        return None

    def _keep(self, content: bytes, named: Callable[[bytes], bytes]) -> bytes:
        name = named(content)
        if self._load(name, named) is None:  # it is not there, or damaged
            replace_private(self._path(name), content, self._folder)
        return name

    def drop_others(self, kept: Iterable[bytes]) -> None:
        """Delete all but what has one of these names."""
        names = {self._path(name).name for name in kept}
        for path in self._folder.glob(f"*{_SUFFIX}"):
            if path.name not in names and path.name != self._journal.name:
                with suppress(OSError):
                    path.unlink()

    # --- the requests of a round that waits --------------------------------------------------------------------------

    def forget_round(self) -> None:
        """Forget the requests of a round that waited."""
        with suppress(OSError):
            self._journal.unlink()

    def note(self, request: bytes) -> None:
        """Add a request of a round that waits for rows, so that the round can be made again."""
        requests = [*self.round_requests(), request]
        content = b"".join(b"%08x" % len(each) + each for each in requests)
        replace_private(self._journal, fingerprint(content) + content, self._folder)

    def round_requests(self) -> list[bytes]:
        """Return the requests of the round that waits, in order; none of a file that is damaged: its round is lost."""
        try:
            stored = self._journal.read_bytes()
        except OSError:
            return []
        content = stored[FINGERPRINT_BYTES:]
        if fingerprint(content) != stored[:FINGERPRINT_BYTES]:
            LOG.warning("%s is damaged; the round that waited is lost.", self._journal)
            return []
        requests = []
        while content:
            size = int(content[:_LENGTH], 16)
            requests.append(content[_LENGTH : _LENGTH + size])
            content = content[_LENGTH + size :]
        return requests

    @property
    def _journal(self) -> Path:
        return self._folder / f"round{_SUFFIX}"

    def _path(self, name: bytes) -> Path:
        return self._folder / f"{name.hex()}{_SUFFIX}"


def store_of(root: Path, run: str, key: bytes = b"") -> MemoryStore:
    """Return the store of a run below a node's folder, after the oldest of the others are gone.

    `key` is that of the run, which names memories.
    """
    folder = root / run
    others = [path for path in root.iterdir() if path.is_dir() and path != folder] if root.is_dir() else []
    for path in sorted(others, key=lambda path: path.stat().st_mtime)[: max(0, len(others) - RUNS + 1)]:
        shutil.rmtree(path, ignore_errors=True)
    return MemoryStore(folder, key)
