"""The secret of a federation's server, in its run's folder: what it draws must not follow from the public seed."""

import secrets
from pathlib import Path
from typing import Final

from fedgraft.errors import require
from fedgraft.experiment.job import Job
from fedgraft.experiment.storage import disk
from fedgraft.experiment.storage.folder_check import SECRET

_BYTES: Final = 32


def make_root(folder: Path, experiment: Job) -> bytes:
    """Put a new secret into a new run's folder, for its owner alone; b"" where the server draws from none."""
    if not _needed(experiment):
        return b""
    root = secrets.token_bytes(_BYTES)
    with disk.written(folder):
        disk.replace(folder, {SECRET: root}, disk.PRIVATE)
    return root


def root_in(folder: Path, experiment: Job) -> bytes:
    """Return the secret; b"" where nothing is drawn from it.

    Raises `InputError` where it is gone: with another one, a round that is made again would have other noise.
    """
    if not _needed(experiment):
        return b""
    root = disk.read_bytes(folder / SECRET)
    require(len(root) == _BYTES, f"The secret in {folder / SECRET}", f"{_BYTES} bytes", f"{len(root)} bytes")
    return root


def _needed(experiment: Job) -> bool:
    return experiment.plan.privacy.central or experiment.selector.by_coins
