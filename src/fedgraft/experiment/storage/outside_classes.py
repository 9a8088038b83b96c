"""Classes outside fedgraft that a stored run names: to import one is to run its module's code.

Who types a recipe's name, or calls `fedgraft.run`, trusts what it names. A run's folder may be somebody else's. So a
folder that names such classes is opened only where this user made it here, or has said that its classes are trusted.
Both are noted by class in the user's own state folder, which nobody who hands over a folder can write to. A run that
goes on in the night finds them there.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fedgraft.contracts import given_networks
from fedgraft.errors import InputError
from fedgraft.experiment.carried_over import WarmStart, parted, seen_before
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes.recipe import contents, outside_names
from fedgraft.experiment.recipes.sections import Section
from fedgraft.experiment.storage.disk import read_bytes, read_model, written
from fedgraft.experiment.storage.folder_check import EXPERIMENT, NETWORK, START
from fedgraft.experiment.storage.provenance import SPENT
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.wire.layouts import Arrays, digest

_KNOWN: set[str] = set()
"""Names that this process's own runs had, or that it trusts: it needs no file to know them."""


def trust(folder: str | Path) -> tuple[str, ...]:
    """Trust the classes outside fedgraft that a run's folder names, whoever made it, now and later; their names.

    To import a class is to run its module's code. Raises `InputError` where the folder is no run's, or this user's
    state folder cannot be written.
    """
    run_folder = RunFolder.open(Path(folder))
    names = outside_names(contents(run_folder.experiment_toml(), str(run_folder.folder / EXPERIMENT)))
    if names:
        with written(_folder()):
            _note(names)
    return names


def note_made(sections: Section) -> None:
    """Note the classes outside fedgraft of a run that this user makes here, by its resolved options."""
    if names := outside_names(sections):
        with suppress(OSError):  # where nothing can be kept, another process has to be told
            _note(names)


def stored_experiment(run_folder: RunFolder) -> Job:
    """Return the experiment of a run's folder.

    Raises `InputError` for a run of another format; and, before anything is imported, where it names classes outside
    fedgraft that no run of this user's had on this machine, and that he has not trusted.
    """
    run_folder.check_format()
    where, text = run_folder.folder / EXPERIMENT, run_folder.experiment_toml()
    outside = outside_names(contents(text, str(where)))
    names = [name for name in outside if name not in _KNOWN and not _file(name).is_file()]
    if names:
        raise InputError(
            f"{where} names classes outside fedgraft, whose code would run: {', '.join(names)}. No run of this user's "
            f"on this machine had them. If you trust them: fedgraft trust {run_folder.folder}"
        )
    _take_network(run_folder, text)
    experiment = Job.from_toml(text, str(where))
    start = run_folder.origin().get("start", {})
    (arrays, own), rows = parted(_first_model(run_folder)), run_folder.seen() if start else None
    seen = None if rows is None else seen_before(rows)
    return experiment.started(arrays, WarmStart(own, json.loads(start.get(SPENT, "{}")), seen))


def given_network(sections: Section) -> bytes:
    """Return the network that resolved options name as an instance, as a run's folder holds it; b"" for none."""
    names = [name for name in outside_names(sections) if given_networks.is_given(name)]
    return given_networks.kept(names[0]) if names else b""


def _take_network(run_folder: RunFolder, text: str) -> None:
    """Keep the network of a run's folder for those who make its model; nothing of it is run here.

    Raises `InputError` if it is missing, or not the one that the run began with.
    """
    path = run_folder.folder / NETWORK
    for name in outside_names(contents(text, str(run_folder.folder / EXPERIMENT))):
        if not given_networks.is_given(name):
            continue
        if not path.is_file():
            raise InputError(f"{path} is missing, and with it the network that the run was given; put it back.")
        if given_networks.name_of(content := read_bytes(path)) != name:
            raise InputError(f"{path} is damaged: it is not the network that the run was given.")
        given_networks.keep(content)


def _first_model(run_folder: RunFolder) -> Arrays:
    """Return the parameters that a run's models began with, see `carried_over.joined`; {} where they were drawn.

    Raises `InputError` if they are missing, or not those that the run began with.
    """
    path, known = run_folder.folder / START, run_folder.origin().get("start", {})
    if not known:
        return {}
    if not path.is_file():
        raise InputError(f"{path} is missing, and with it what the run's model began with; put it back.")
    arrays = read_model(path)
    if digest(arrays) != known.get("model"):
        raise InputError(f"{path} is damaged: it is not what the run's model began with.")
    return arrays


def _note(names: Sequence[str]) -> None:
    _KNOWN.update(names)
    _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in names:
        _file(name).touch(mode=0o600)


def _file(name: str) -> Path:
    return _folder() / hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def _folder() -> Path:
    root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(root) / "fedgraft" / "trusted"
