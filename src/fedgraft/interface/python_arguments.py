"""Read what the user gave in Python: a recipe, options as keyword arguments, data of any kind."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgraft.contracts.data import InMemoryData
from fedgraft.errors import InputError, unknown
from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.experiment.recipes.sections import METHODS, SETTINGS, VALUES

ARGUMENTS = ("out", "start", "progress", "on_round", "track", "seeds", "overrides", "secure")
"""What `fedgraft.run` takes beside what a recipe holds."""


def recipe_of(recipe: str | Path | Experiment) -> Recipe:
    """Return the recipe that was given, by its name, its file, or an experiment of it."""
    return recipe.recipe if isinstance(recipe, Experiment) else Recipe.read(str(recipe))


def changes_of(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"section.key": value} of keyword arguments."""
    changes: dict[str, Any] = {}
    for key, value in choices.items():
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
        if issubclass(cls, InMemoryData) and (options := cls.options_from(data)) is not None:
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
