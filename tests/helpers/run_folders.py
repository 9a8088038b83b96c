"""Folders of runs that are made by hand."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgraft.experiment.storage.run_folder import RunFolder

ORIGIN: Mapping[str, Mapping[str, Any]] = {"options": {"seed": 1}, "clients": {"client 0": "00"}}


def created(
    folder: Path, toml: str, environment: Mapping[str, Any], origin: Mapping[str, Mapping[str, Any]] = ORIGIN
) -> RunFolder:
    """Make a new folder with a run in it, entered already."""
    run_folder = RunFolder.begin(folder)
    with run_folder.taken_back():
        run_folder.describe(toml, environment, origin)
    return run_folder
