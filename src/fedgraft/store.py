"""A run's folder: what is in it, how it is written so that a kill at any moment loses nothing, how it is read back.

    experiment.toml     fully resolved; enough to run again          summary.json        the result
    rounds.jsonl        one row a round                              model.safetensors   best by validation
    ledger.jsonl        every byte, one entry a line                 environment.json    versions, machine
    checkpoint/         state.bin and one file per client memory

A checkpoint is the last valid one at every moment: memories are new files, and `state.bin`, which names them, replaces the
old one atomically. Rows are appended before the checkpoint that counts them; on resume, rows beyond it are cut off.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from safetensors.numpy import save as save_tensors

from fedgraft import wire
from fedgraft.errors import InputError, WireError
from fedgraft.ledger import Entry
from fedgraft.state import RunState
from fedgraft.types import Arrays

STATE = "state.bin"


class Store:
    """One run's folder.

    Args:
        folder: where it is or will be.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._memories: dict[str, str] = {}

    # --- writing -----------------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, folder: Path, experiment_toml: str, environment: Mapping[str, Any]) -> "Store":
        """A new folder. Raises `InputError` if it holds a run already or cannot be written."""
        if (folder / "experiment.toml").exists():
            raise InputError(
                f"--out {folder} holds a run already. Continue it with 'fedgraft resume {folder}', or choose another."
            )
        store = cls(folder)
        try:
            (folder / "checkpoint").mkdir(parents=True, exist_ok=True)
            store.write_text("experiment.toml", experiment_toml)
            store.write_text("environment.json", json.dumps(dict(environment), indent=2) + "\n")
        except OSError as error:
            raise InputError(f"--out {folder} cannot be written: {error.strerror or error}.") from error
        return store

    def write_text(self, name: str, text: str) -> None:
        """Replace a file atomically."""
        self._replace(self.folder / name, text.encode())

    def append(self, row: object, entries: Iterable[Entry]) -> None:
        """Add a round's row (None before the first) and its ledger entries."""
        if row is not None:
            self._append("rounds.jsonl", [row])
        self._append("ledger.jsonl", entries)

    def checkpoint(self, state: RunState, memories: Iterable[tuple[int, bytes]]) -> None:
        """Make `state`, with every memory, what a resume starts from."""
        folder = self.folder / "checkpoint"
        for client, memory in memories:
            name = f"client-{client}-round-{state.round}.bin"
            self._replace(folder / name, memory)
            self._memories[str(client)] = name
        for name in ("rounds.jsonl", "ledger.jsonl"):
            _sync(self.folder / name)
        tree = {"state": state.to_tree(), "memories": dict(self._memories)}
        self._replace(folder / STATE, wire.pack(tree))
        kept = {STATE, *self._memories.values()}
        for path in folder.iterdir():
            if path.name not in kept:
                path.unlink()

    def finish(self, summary: Mapping[str, Any], model: Arrays) -> None:
        """Write the result."""
        self._replace(self.folder / "model.safetensors", save_tensors(dict(model)))
        self.write_text("summary.json", json.dumps(dict(summary), indent=2, allow_nan=False) + "\n")

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
        """The last checkpoint's state and memories, rows beyond it cut off; None if there is none yet."""
        folder = self.folder / "checkpoint"
        if not (folder / STATE).is_file():
            for name in ("rounds.jsonl", "ledger.jsonl"):
                (self.folder / name).unlink(missing_ok=True)
            return None
        try:
            tree: Any = wire.unpack((folder / STATE).read_bytes())
            state = RunState.from_tree(tree["state"])
            memories = {int(client): (folder / name).read_bytes() for client, name in tree["memories"].items()}
        except (WireError, KeyError, TypeError, AttributeError, OSError) as error:
            raise InputError(f"{folder / STATE} is damaged: {error}.") from error
        self._memories = dict(tree["memories"])
        for name in ("rounds.jsonl", "ledger.jsonl"):
            self._cut(name, state.round)
        return state, memories

    # --- files -------------------------------------------------------------------------------------------------------

    def _append(self, name: str, rows: Iterable[object]) -> None:
        lines = [json.dumps(asdict(row) if is_dataclass(row) else row) + "\n" for row in rows]  # type: ignore[arg-type]
        with (self.folder / name).open("a") as file:
            file.writelines(lines)

    def _cut(self, name: str, round: int) -> None:
        kept = [json.dumps(row) + "\n" for row in _read_lines(self.folder / name) if row["round"] <= round]
        self._replace(self.folder / name, "".join(kept).encode())

    def _replace(self, path: Path, content: bytes) -> None:
        """Write beside, force to disk, rename: the file is the old one or the new one, never half of either."""
        temporary = path.with_name(path.name + ".new")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync(path.parent)


def _sync(path: Path) -> None:
    """Force a file or a folder's entries to disk."""
    if not path.exists():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
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
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)
