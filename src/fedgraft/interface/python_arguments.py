"""Read what the user gave in Python: a recipe, options as keyword arguments, data of any kind."""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from fedgraft.errors import InputError, unknown
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import RENAMED, Recipe
from fedgraft.experiment.recipes.sections import METHODS, SETTINGS, VALUES
from fedgraft.experiment.storage.data_notes import without_notes
from fedgraft.experiment.storage.run_folder import RunFolder

DATA = "data"
"""Folder inside a run's folder that holds tables which were given as DataFrames."""
_COMMAND = re.compile(r"('fedgraft [^']*'|fedgraft [a-z]+ [A-Z]+ --[a-z-]+ [A-Z]+)")
"""What is a whole command and stays one."""
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z_-]*)")
ARGUMENTS = ("out", "start", "progress", "on_round", "track", "seeds", "overrides", "secure")
"""What `fedgraft.run` takes beside what a recipe holds."""


def in_python(text: str) -> str:
    """Return a text with `--some-name` as `some_name`, but for what is a whole command.

    >>> in_python("--pairs has no rows; try 'fedgraft run RECIPE --from RUN'.")
    "pairs has no rows; try 'fedgraft run RECIPE --from RUN'."
    """
    parts = _COMMAND.split(text)
    parts[::2] = [_OPTION.sub(lambda match: match[1].replace("-", "_"), part) for part in parts[::2]]
    return "".join(parts)


@contextmanager
def python_words() -> Iterator[None]:
    """Raise an `InputError` from in here in Python's words."""
    try:
        yield
    except InputError as error:
        raise InputError(in_python(str(error))) from error


def recipe_of(recipe: str | Path | Job) -> Recipe:
    """Return the recipe that was given, by its name, its file, or an experiment of it."""
    return recipe.recipe if isinstance(recipe, Job) else Recipe.read(str(recipe))


def changes_of(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"section.key": value} of keyword arguments."""
    changes: dict[str, Any] = {}
    for key, value in choices.items():
        key = RENAMED.get(key, key)
        if key not in METHODS and key not in SETTINGS and key not in VALUES:
            raise unknown("argument", key, [*ARGUMENTS, *METHODS, *SETTINGS, *VALUES])
        if key in METHODS and (section := discovery.section_of(METHODS[key], value)) is not None:
            value = section
        if key == "model" and (section := section_of_network(value)) is not None:
            value = section
        if key in VALUES:
            changes[key] = list(value) if isinstance(value, tuple) else value
        elif isinstance(value, Mapping):
            changes.update({f"{key}.{option}": each for option, each in value.items()})
        elif key in METHODS and isinstance(value, str):
            changes[f"{key}.name"] = value
        elif key in ("codec", "downlink") and isinstance(value, list | tuple):
            changes[key] = list(value)
        else:
            example = '"name", {"name": ..., "option": ...} or an instance' if key in METHODS else '{"option": ...}'
            raise InputError(f"{key} must be given as {example}; got {value!r}.")
    return changes


def data_of(data: Any) -> Any:
    """Return the section [data] that was meant: where there is no name, of the data set that knows what was given."""
    if (isinstance(data, str) and data in discovery.names("data")) or (isinstance(data, Mapping) and "name" in data):
        return data
    if (section := discovery.section_of("data", data)) is not None:
        return section
    for name in {*discovery.names("data")} - {*discovery.presets("data")}:
        cls = discovery.find("data", name)
        if (options := cls.options_from(data)) is not None:
            return {"name": name, **options}
    return data


def section_of_network(value: Any) -> dict[str, Any] | None:
    """Return the section for a class or an instance of torch.nn.Module; None for what is neither.

    An instance is stored at once: what becomes of it later does not matter. Raises `InputError` for a class inside a
    function, and for what cannot be stored.
    """
    torch = sys.modules.get("torch")  # who has a network has imported it
    if torch is None:
        return None
    if isinstance(value, type) and issubclass(value, torch.nn.Module):
        return {"name": discovery.outside_name(value)}
    if not isinstance(value, torch.nn.Module):
        return None
    from fedgraft.contracts import given_networks

    return {"name": "network", "module": given_networks.keep(given_networks.stored(value))}


def given_tables(experiment: Job) -> dict[str, pd.DataFrame]:
    """Return {option of the data: table that was given in memory}."""
    return experiment.data.tables()


def with_stored_tables(experiment: Job, run_folder: RunFolder) -> Job:
    """Return the experiment with all tables given in memory written to the run's folder and read there."""
    with without_notes():  # told before
        frames = given_tables(experiment)
    paths = {f"data.{key}": run_folder.path_for(f"{DATA}/{key}.parquet") for key in frames}
    for (key, frame), path in zip(frames.items(), paths.values(), strict=True):
        _store_table(frame, path, f"data.{key}")
    return experiment.with_changes(paths)


def with_common_tables(experiment: Job, folder: Path) -> Job:
    """Return the experiment with all tables given in memory written to the folder of all seeds and read there."""
    if not (frames := given_tables(experiment)):
        return experiment
    with without_notes():
        experiment.shards()
    paths = {f"data.{key}": (folder / DATA / f"{key}.parquet").resolve() for key in frames}
    for (key, frame), path in zip(frames.items(), paths.values(), strict=True):
        new = path.with_name(path.name + ".new")
        _store_table(frame, new, f"data.{key}")
        if path.exists() and path.read_bytes() != new.read_bytes():
            new.unlink()
            raise InputError(f"{folder} holds runs with another table data.{key}, see {path}. Choose another folder.")
        new.replace(path)
    return experiment.with_changes({name: str(path) for name, path in paths.items()})


def _store_table(frame: pd.DataFrame, path: Path, parameter: str) -> None:
    """RunFolder as Parquet, which wants one type a column: ids of several types become the text that they stand for."""
    mixed = {str(c): frame[c].map(str, na_action="ignore") for c in frame if frame[c].dtype == object}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.assign(**mixed).to_parquet(path, index=False)
    except (OSError, ValueError, TypeError) as error:  # Arrow's errors are ValueErrors and TypeErrors
        raise InputError(f"{parameter} cannot be stored in {path}: {error}.") from error
