"""Studies as files: those that come with fedgraft, and what each holds. Nothing of what they name is imported."""

import tomllib
from importlib import resources
from typing import Any

from fedgraft.errors import unknown


def titles() -> dict[str, str]:
    """Every study that comes with fedgraft, and its title."""
    return {name: str(read_file(name)[1]["title"]) for name in _names()}


def read_file(study: str) -> tuple[str, dict[str, Any]]:
    """A study's name and what its file holds. Raises `InputError` with the nearest right name."""
    if study not in _names():
        raise unknown("study", study, _names())
    return study, tomllib.loads((resources.files("fedgraft.reports") / "studies" / f"{study}.toml").read_text())


def _names() -> list[str]:
    folder = resources.files("fedgraft.reports") / "studies"
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))
