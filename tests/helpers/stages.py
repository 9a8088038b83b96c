"""Tasks made of stages whose options are given as a recipe has them."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.sections import METHODS, STAGES


def staged(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of a task of this name; options such as "loss.focal" make its stages."""
    defaults = {field.name: field.default for field in fields(discovery.find("tasks", name))}
    given = {key: value for key, value in options.items() if "." not in key}
    for section, stage in STAGES.items():
        said = {key.partition(".")[2]: value for key, value in options.items() if key.startswith(f"{section}.")}
        if said:
            usual = given.get(stage, defaults[stage])
            held = discovery.options_of(usual) if stage in given else {}
            named = {"name": discovery.name_of(METHODS[section], type(usual)), **held, **said}
            given[stage] = discovery.build(METHODS[section], section, named)
    return given


def restaged(task: Any, options: Mapping[str, Any]) -> Any:
    """Return a task with other options, "exchange.states" being one of its stages'."""
    changes = {key: value for key, value in options.items() if "." not in key}
    for section, stage in STAGES.items():
        said = {key.partition(".")[2]: value for key, value in options.items() if key.startswith(f"{section}.")}
        if said:
            changes[stage] = replace(getattr(task, stage), **said)
    return replace(task, **changes)
