"""A recipe with every option resolved, as a file of one."""

import tomli_w

from fedgraft.experiment.experiment import build
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import read_recipe, section_of

_KEPT = ("alternatives",)
"""Keys that a resolved recipe has no more, and a file of one keeps."""


def described(recipe: str) -> str:
    """A recipe, by name or file, with every option resolved; a comment names each that must be given with it."""
    name, content = read_recipe(recipe)
    section = section_of(content, "data")
    wanted = discovery.lacking("data", "data", section)
    anywhere = dict.fromkeys(wanted, ".")  # where data are is not looked at before they are loaded
    resolved = build(name, {**content, "data": {**section, **anywhere}}).sections
    data = {key: value for key, value in resolved["data"].items() if key not in wanted}
    kept = {key: content[key] for key in _KEPT if key in content}
    text = tomli_w.dumps({**resolved, "data": data, **kept})
    head = "".join(f"# {key} must be given: fedgraft run {recipe} data.{key}=...\n" for key in wanted)
    return text.replace("[data]\n", f"[data]\n{head}", 1)
