"""A run's folder as such: where one may begin, what in it is the run's own, and how it is taken back.

A run begins in a folder that is not there or is empty, so that nothing of anybody's is ever written over or deleted.
Afterwards only files with names of its own are touched, and none of them may be a link to something elsewhere.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from fedgraft.contracts import given_networks
from fedgraft.errors import InputError
from fedgraft.experiment.storage import disk

EXPERIMENT: Final = "experiment.toml"
ENVIRONMENT: Final = "environment.json"
ORIGIN: Final = "origin.json"
ROWS: Final = ("rounds.jsonl", "ledger.jsonl")
SUMMARY: Final = "summary.json"
MODEL: Final = "model.safetensors"
START: Final = "start.safetensors"
SEEN: Final = "seen.npy"
SECRET: Final = "server_secret"
NETWORK: Final = given_networks.FILE
CHECKPOINT: Final = "checkpoint"
STATE: Final = "state.bin"
BEFORE: Final = "state.before.bin"
LOCK: Final = ".lock"
RUN, FEDERATION = "run", "federation"
"""Where `environment.json` has the name of a federation's run, by which nodes keep what they remember of it, and the
federation's folder."""

_BIRTH: Final = (ENVIRONMENT, ORIGIN, START, SEEN, SECRET, NETWORK, EXPERIMENT)
_FILES: Final = (*_BIRTH, *ROWS, SUMMARY, MODEL)
_NEW: Final = tuple(name + disk.NEW for name in (*_BIRTH, SUMMARY, MODEL))
_STATES: Final = (STATE, STATE + disk.NEW, BEFORE, BEFORE + disk.NEW)
_MEMORY: Final = re.compile(r"(?P<kind>client|setup)-(?P<number>0|[1-9][0-9]{0,9})-(?P<hash>[0-9a-f]{32})\.bin")


def memory_name(client: int, content: bytes) -> str:
    """Return the name of the file with a client's memory; of ~client, with the set-up message that it was sent."""
    whose = f"client-{client}" if client >= 0 else f"setup-{~client}"
    return f"{whose}-{disk.fingerprint(content).hex()}.bin"


def memory_of(name: str) -> tuple[int, str] | None:
    """Return (client, hash of the content) of a name that `memory_name` made; None for any other name."""
    match = _MEMORY.fullmatch(name)
    if match is None:
        return None
    number = int(match["number"])
    return number if match["kind"] == "client" else ~number, match["hash"]


# --- where a run may begin --------------------------------------------------------------------------------------------


def check_free(folder: Path) -> None:
    """Raise `InputError` unless a run may begin here: where nothing is, or an empty folder.

    What a start that was killed has left, a lock and files that never got their names, is as good as nothing.
    """
    names = names_in(folder, f"--out {folder}")
    if EXPERIMENT in names:
        raise InputError(
            f"--out {folder} holds a run already. Continue it with 'fedgraft resume {folder}', or choose another."
        )
    foreign = [name for name in names if not _is_leftover(folder / name)]
    if foreign or (names and LOCK not in names):
        first = (foreign or names)[0]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise InputError(
            f"--out {folder} is not empty: it holds {first!r}{more}. A run begins in a folder that is empty or not "
            "there yet, so that nothing is written over; choose another."
        )


def names_in(folder: Path, what: object) -> list[str]:
    """Return the names in a folder, ascending; none where there is no folder. `what` it is, for errors."""
    with disk.written(what), suppress(FileNotFoundError):
        return sorted(os.listdir(folder))
    return []


def check_own(folder: Path) -> None:
    """Raise `InputError` where a name of the run's own is not a plain file, or `checkpoint` not a folder."""
    inner = folder / CHECKPOINT
    _check(inner, ("", "folder"), "folder")
    for path in [folder / name for name in (LOCK, *_FILES, *_NEW)] + [inner / name for name in _STATES]:
        _check(path, ("", "file") if path.name in ROWS else ("", "file", "second name"), "file")
    for path in memories(folder):
        _check(path, ("", "file", "second name"), "file")


def memories(folder: Path) -> Iterator[Path]:
    """The files of a checkpoint that hold what clients remember, by their names."""
    inner = folder / CHECKPOINT
    names = sorted(os.listdir(inner)) if inner.is_dir() else []
    return (inner / name for name in names if memory_of(name) is not None)


def make(folder: Path) -> list[Path]:
    """Make a folder and what lacks above it; the folders that were made, the outermost first."""
    lacking, made = [], []
    while not os.path.lexists(folder):
        lacking.append(folder)
        folder = folder.parent
    try:
        for path in reversed(lacking):
            with suppress(FileExistsError):  # somebody else was faster, and it is theirs
                path.mkdir()
                made.append(path)
    except OSError:
        take_back(made)
        raise
    return made


# --- what is taken away -----------------------------------------------------------------------------------------------


def clear(folder: Path, others: Iterable[Path] = ()) -> None:
    """Take away all files of a run that has not begun, the lock last; what is not the run's stays."""
    inner = folder / CHECKPOINT
    with suppress(OSError):
        for path in list(memories(folder)):
            disk.remove(path)
    for path in [inner / name for name in _STATES] + [folder / name for name in (*_FILES, *_NEW)]:
        disk.remove(path)
    for path in others:
        disk.remove(path)
        take_back([path.parent])
    take_back([inner])
    disk.remove(folder / LOCK)


def take_back(made: Iterable[Path]) -> None:
    """Remove folders that are empty, the last first."""
    for path in reversed(list(made)):
        with suppress(OSError):  # what somebody else put there stays
            path.rmdir()


def _is_leftover(path: Path) -> bool:
    """Return whether it is the leftover of a start that was killed before the run had its name."""
    kind = disk.kind(path)
    if path.name == CHECKPOINT:
        return kind == "folder" and not os.listdir(path)
    return kind == "file" and path.name in (LOCK, *(name + disk.NEW for name in _BIRTH))


def _check(path: Path, allowed: tuple[str, ...], wanted: str) -> None:
    kind = disk.kind(path)
    if kind not in allowed:
        what = {"link": "a link", "second name": "a second name (hard link) of another file"}.get(kind, f"a {kind}")
        raise InputError(
            f"{path} is {what}; it must be a {wanted} of the run's own, so that nothing elsewhere is changed. "
            "Put a copy in its place."
        )
