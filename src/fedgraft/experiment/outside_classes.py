"""Classes outside fedgraft that a stored run names: to import one is to run its module's code.

Who types a recipe's name, or calls `fedgraft.run`, trusts what it names. A run's folder may be somebody else's. So a
folder that names such classes is opened only where this user made it here, or has said that its classes are trusted.
Both are noted in the user's own state folder, which nobody who hands over a folder can write to: a fingerprint of the
names and of what the run began with (`origin.json`). A run that goes on in the night finds it there.
"""

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fedgraft.errors import InputError
from fedgraft.experiment.experiment import Experiment, contents
from fedgraft.experiment.folder_check import EXPERIMENT, ORIGIN
from fedgraft.experiment.recipe import outside_names
from fedgraft.experiment.run_folder import Store

_KNOWN: set[str] = set()
"""Fingerprints of runs that this process made or trusts: it needs no file to know them."""


def trust(folder: Path) -> tuple[str, ...]:
    """Trust the classes outside fedgraft that a run's folder names, now and later; their names.

    Raises `InputError` where the folder is no run's, or this user's state folder cannot be written.
    """
    store = Store.open(folder)
    names = outside_names(contents(store.experiment_toml(), str(folder / EXPERIMENT)))
    if names:
        try:
            _note(_fingerprint(names, folder))
        except OSError as error:
            raise InputError(f"{_folder()} cannot be written: {error.strerror or error}.") from error
    return names


def note_made(experiment: Experiment, folder: Path) -> None:
    """Note that a run's folder was made here, by this user, if it names classes outside fedgraft."""
    if names := outside_names(experiment.sections):
        with suppress(OSError):  # where nothing can be kept, another process has to be told
            _note(_fingerprint(names, folder))


def stored_experiment(store: Store) -> Experiment:
    """Return the experiment of a run's folder.

    Raises `InputError`, before anything is imported, where it names classes outside fedgraft and this user has neither
    made the folder here nor trusted it.
    """
    where, text = store.folder / EXPERIMENT, store.experiment_toml()
    names = outside_names(contents(text, str(where)))
    if names and not _is_known(_fingerprint(names, store.folder)):
        raise InputError(
            f"{where} names classes outside fedgraft, whose code would run: {', '.join(names)}. This user has not made "
            f"that run on this machine. If you trust them: fedgraft trust {store.folder}"
        )
    return Experiment.from_toml(text, str(where))


def _is_known(fingerprint: str) -> bool:
    return fingerprint in _KNOWN or (_folder() / fingerprint).is_file()


def _note(fingerprint: str) -> None:
    _KNOWN.add(fingerprint)
    _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    (_folder() / fingerprint).touch(mode=0o600)


def _fingerprint(names: Sequence[str], folder: Path) -> str:
    state = hashlib.blake2b("\n".join(names).encode() + b"\0", digest_size=16)
    with suppress(OSError):
        state.update((folder / ORIGIN).read_bytes())
    return state.hexdigest()


def _folder() -> Path:
    root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(root) / "fedgraft" / "trusted"
