"""A run's folder: what is in it, how it is written so that a kill at any moment loses nothing, how it is read back.

    experiment.toml     fully resolved; enough to run again          summary.json        the result
    rounds.jsonl        one row a round                              model.safetensors   best by validation
    ledger.jsonl        every byte, one entry a line                 environment.json    versions, machine
    checkpoint/         state.bin and one file per client memory     origin.json         its data and options

A checkpoint is the last valid one at every moment: memories are new files, named after their content, and `state.bin`,
which names them, replaces the old one atomically. Rows are appended before the checkpoint that counts them; on resume,
what is beyond it is cut off. Everything that a checkpoint holds is checked against its fingerprint when it is read.
One process at a time writes: it holds a lock on `.lock`, which ends with it, however it ends.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from safetensors.numpy import save as save_tensors

from fedgraft import wire
from fedgraft.engine.server.ledger import Entry
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import FedgraftError, InputError, WireError
from fedgraft.experiment.provenance import Origin
from fedgraft.wire.layouts import Arrays, Tree

STATE = "state.bin"
MODEL = "model.safetensors"
LOCK = ".lock"
ROWS = ("rounds.jsonl", "ledger.jsonl")
_FINGERPRINT_BYTES = 16


class Store:
    """One run's folder. Who writes there enters it first, and is then the only process that does.

    Args:
        folder: where it is or will be.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._memories: dict[str, str] = {}  # {client: file}
        self._sizes: dict[str, int] = {}  # {file of rows: bytes that the checkpoint counts}
        self._lock = FileLock(folder / LOCK, timeout=0)

    # --- writing -----------------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls, folder: Path, experiment_toml: str, environment: Mapping[str, Any], origin: Origin | None = None
    ) -> "Store":
        """A new folder, entered already. Raises `InputError` if it holds a run already or cannot be written."""
        cls.check_free(folder)
        store = cls(folder)
        try:
            (folder / "checkpoint").mkdir(parents=True, exist_ok=True)
            store.__enter__()
            cls.check_free(folder)  # another process may have been faster
            _replace(folder / "environment.json", _json(environment).encode())
            _replace(folder / "origin.json", _json(origin or {}).encode())
            _replace(folder / "experiment.toml", experiment_toml.encode())
        except OSError as error:
            raise InputError(f"--out {folder} cannot be written: {error.strerror or error}.") from error
        return store

    @staticmethod
    def check_free(folder: Path) -> None:
        """Raise `InputError` if the folder holds a run already."""
        if (folder / "experiment.toml").exists():
            raise InputError(
                f"--out {folder} holds a run already. Continue it with 'fedgraft resume {folder}', or choose another."
            )

    def __enter__(self) -> "Store":
        """Keep other processes from writing here. Raises `InputError` where one is at it."""
        try:
            if not self._lock.is_locked:
                self._lock.acquire()
        except Timeout as error:
            raise InputError(f"{self.folder} is being written by another process; let that end, or end it.") from error
        except OSError as error:
            raise InputError(f"{self.folder} cannot be written: {error.strerror or error}.") from error
        return self

    def __exit__(self, *error: object) -> None:
        """Let others write."""
        self._lock.release()

    def discard(self) -> None:
        """Take a new folder back, of a run that could not begin; one with a checkpoint stays."""
        if (self.folder / "checkpoint" / STATE).exists():
            return
        for name in ("experiment.toml", "environment.json", "origin.json", "ledger.jsonl", LOCK):
            (self.folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # what somebody else put there stays
            (self.folder / "checkpoint").rmdir()
            self.folder.rmdir()

    def append(self, row: object | None, entries: Iterable[Entry]) -> None:
        """Add a round's row (None for what belongs to no round) and ledger entries."""
        with self._writing():
            if row is not None:
                _append(self.folder / "rounds.jsonl", [_line(vars(row))])
            _append(self.folder / "ledger.jsonl", [entry.json() + "\n" for entry in entries])

    def checkpoint(self, state: RunState, memories: Iterable[tuple[int, bytes]]) -> None:
        """Make `state`, with every memory, what a resume starts from."""
        folder = self.folder / "checkpoint"
        with self._writing():
            current = set(self._memories.values())
            for client, memory in memories:
                whose = f"client-{client}" if client >= 0 else f"told-{~client}"
                name = f"{whose}-{_fingerprint(memory).hex()}.bin"
                self._memories[str(client)] = name
                if name not in current:
                    _write(folder / name, memory)
            _sync(folder)
            self._sizes = {name: _sync(self.folder / name) for name in ROWS}
            memories_tree: Tree = {**self._memories}
            content = wire.pack({"state": state.to_tree(), "memories": memories_tree, "sizes": {**self._sizes}})
            _replace(folder / STATE, _fingerprint(content) + content)
            kept = {STATE, *self._memories.values()}
            for path in folder.iterdir():
                if path.name not in kept:
                    path.unlink()

    def finish(self, summary: Mapping[str, Any], model: Arrays) -> None:
        """Write the result."""
        with self._writing():
            _replace(self.folder / MODEL, save_tensors(dict(model)))
            _replace(self.folder / "summary.json", _json(summary).encode())

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FedgraftError(
                f"{self.folder} cannot be written: {error.strerror or error}. The last checkpoint is intact: mend that "
                f"and continue with 'fedgraft resume {self.folder}'."
            ) from error

    # --- reading -----------------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, folder: Path) -> "Store":
        """An existing folder. Raises `InputError` if it is not a run's."""
        if not (folder / "experiment.toml").is_file():
            raise InputError(f"{folder} is not a run's folder: it has no experiment.toml.")
        return cls(folder)

    def experiment_toml(self) -> str:
        """The resolved experiment."""
        return (self.folder / "experiment.toml").read_text()

    def origin(self) -> Origin:
        """What the run began with; nothing of one of an older version."""
        path = self.folder / "origin.json"
        return _read_json(path) if path.is_file() else {}

    def summary(self) -> dict[str, Any]:
        """The result. Raises `InputError` if the run has not finished."""
        path = self.folder / "summary.json"
        if not path.is_file():
            raise InputError(f"{self.folder} has no summary.json yet; finish it with 'fedgraft resume {self.folder}'.")
        return _read_json(path)

    def rows(self) -> list[dict[str, Any]]:
        """The rows of all rounds so far."""
        return list(_read_lines(self.folder / "rounds.jsonl"))

    def entries(self) -> Iterator[dict[str, Any]]:
        """The ledger's entries so far."""
        return _read_lines(self.folder / "ledger.jsonl")

    def load(self) -> tuple[RunState, dict[int, bytes]] | None:
        """The last checkpoint's state and memories; None if there is none yet. Nothing is changed."""
        path = self.folder / "checkpoint" / STATE
        if not path.is_file():
            if (self.folder / ROWS[0]).exists():
                raise InputError(f"{path} is missing, though rounds were stored; this run cannot be continued.")
            return None
        try:
            tree: Any = wire.unpack(_checked(path.read_bytes()))
            state = RunState.from_tree(tree["state"])
            memories = {int(client): self._read_memory(name) for client, name in tree["memories"].items()}
            self._memories, self._sizes = dict(tree["memories"]), dict(tree["sizes"])
        except (WireError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path} is damaged: {error}.") from error
        return state, memories

    def rewind(self) -> None:
        """Cut off the rows that the loaded checkpoint does not count: a kill came between them and the next one."""
        for name in ROWS:
            path, size = self.folder / name, self._sizes.get(name, 0)
            found = path.stat().st_size if path.exists() else 0
            if found < size:
                raise InputError(f"{path} is damaged: it has {found} bytes, the checkpoint counts {size}.")
            if found > size:
                with self._writing():
                    os.truncate(path, size)

    def _read_memory(self, name: str) -> bytes:
        path = self.folder / "checkpoint" / name
        try:
            memory = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
        if _fingerprint(memory).hex() not in name:
            raise InputError(f"{path} is damaged: its content is not what was written.")
        return memory


# --- files ------------------------------------------------------------------------------------------------------------


def _fingerprint(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=_FINGERPRINT_BYTES).digest()


def _checked(content: bytes) -> memoryview:
    """What follows its own fingerprint."""
    body = memoryview(content)[_FINGERPRINT_BYTES:]
    if _fingerprint(body) != content[:_FINGERPRINT_BYTES]:
        raise WireError("its content is not what was written")
    return body


def _append(path: Path, lines: Iterable[str]) -> None:
    with path.open("ab") as file:
        file.write("".join(lines).encode())


def _line(row: Mapping[str, Any]) -> str:
    # JSON has no nan and no infinity: null.
    known = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
    return json.dumps(known, allow_nan=False) + "\n"


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(dict(content), indent=2, allow_nan=False) + "\n"


def _replace(path: Path, content: bytes) -> None:
    """Write beside, force to disk, rename: the file is the old one or the new one, never half of either."""
    temporary = path.with_name(path.name + ".new")
    try:
        _write(temporary, content)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _write(path: Path, content: bytes) -> None:
    """A file that is not referred to yet, forced to disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> int:
    """Force a file or a folder's entries to disk; how many bytes the file has, 0 for none."""
    if not path.exists():
        return 0
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}.") from error
    return content


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a file of JSON lines; a last line cut short by a kill is left out."""
    if not path.is_file():
        return
    with path.open() as file:
        for number, line in enumerate(file, 1):
            if line.endswith("\n"):
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise InputError(f"{path}, line {number} is damaged: {error}.") from error
