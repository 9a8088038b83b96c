"""A recipe with every option resolved, as a file of one."""

from collections.abc import Mapping
from typing import Any

import tomli_w

from fedgraft.experiment.job import Job, chosen
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import Recipe

_KEPT = ("alternatives",)
"""Keys that a resolved recipe has no more, and a file of one keeps."""


def described(recipe: str) -> str:
    """A recipe, by name or file, with every option resolved; a comment names each that must be given with it."""
    read = Recipe.read(recipe)
    wanted, resolved = _lacking(read), without_data(recipe).recipe.sections
    data = {key: value for key, value in resolved["data"].items() if key not in wanted}
    kept = {key: read.sections[key] for key in _KEPT if key in read.sections}
    text = tomli_w.dumps({**resolved, "data": data, **kept})
    head = "".join(f"# {key} must be given: fedgraft run {recipe} data.{key}=...\n" for key in wanted)
    return text.replace("[data]\n", f"[data]\n{head}", 1)


def without_data(recipe: str, changes: Mapping[str, Any] | None = None, switch: str = "") -> Job:
    """Return the experiment of a recipe with some options changed; where its data are need not be said.

    `switch` as in `job.load`.
    """
    read, changes = Recipe.read(recipe), changes or {}
    lacking = _lacking(read.changed(changes))
    anywhere = {f"data.{key}": "." for key in lacking}  # where data are is not looked at before they are loaded
    return chosen(read, {**changes, **anywhere}, switch)


def _lacking(recipe: Recipe) -> list[str]:
    """Options of the data that must be given."""
    return list(discovery.lacking("data", "data", recipe.section("data")))
