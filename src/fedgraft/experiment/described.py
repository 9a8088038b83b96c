"""A recipe with every option resolved, as a file of one."""

from collections.abc import Mapping
from typing import Any

import tomli_w

from fedgraft.experiment.experiment import Experiment, chosen
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import override, own_options, read_recipe, section_of
from fedgraft.experiment.recipes.sections import Section

_KEPT = ("alternatives",)
"""Keys that a resolved recipe has no more, and a file of one keeps."""


def described(recipe: str) -> str:
    """A recipe, by name or file, with every option resolved; a comment names each that must be given with it."""
    content = read_recipe(recipe)[1]
    wanted, resolved = _lacking(content), without_data(recipe).sections
    data = {key: value for key, value in resolved["data"].items() if key not in wanted}
    kept = {key: content[key] for key in _KEPT if key in content}
    text = tomli_w.dumps({**resolved, "data": data, **kept})
    head = "".join(f"# {key} must be given: fedgraft run {recipe} data.{key}=...\n" for key in wanted)
    return text.replace("[data]\n", f"[data]\n{head}", 1)


def without_data(recipe: str, changes: Mapping[str, Any] | None = None, switch: str = "") -> Experiment:
    """Return the experiment of a recipe with some options changed; where its data are need not be said.

    `switch` as in `experiment.load`.
    """
    name, content = read_recipe(recipe)
    changes = changes or {}
    lacking = _lacking(override(content, changes))
    anywhere = {f"data.{key}": "." for key in lacking}  # where data are is not looked at before they are loaded
    return chosen(name, content, {**changes, **anywhere}, own_options(recipe), switch)


def _lacking(content: Section) -> list[str]:
    """Options of the data that must be given."""
    return list(discovery.lacking("data", "data", section_of(content, "data")))
