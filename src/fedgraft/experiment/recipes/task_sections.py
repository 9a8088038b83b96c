"""A recipe's task: its options, its encoder, and the parts that a sharing method needs."""

from dataclasses import fields
from typing import Any

from fedgraft.contracts import Sharing, Task
from fedgraft.contracts.abilities.tasks import PartsTask
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.encoder_sections import build_encoder
from fedgraft.experiment.recipes.options import hints_of
from fedgraft.experiment.recipes.recipe import Recipe


def build_task(recipe: Recipe, name: str, sharing: Sharing[Any]) -> Task[Any, Any]:
    """The task of this name."""
    cls = discovery.find("tasks", name)
    options = {key: value for key, value in recipe.section("task", default=name).items() if key != "name"}
    if "encoder" in {each.name for each in fields(cls)}:
        options["encoder"] = build_encoder(recipe.section("model"), name, hints_of(cls)["encoder"])
    elif "model" in recipe.sections:
        raise InputError(f"task {name!r} has a model of its own; leave the section [model] out.")
    discovery.check_keys("tasks", cls, "task", name, options)
    return _with_parts(discovery.construct(cls, "task", options), name, sharing)


def _with_parts(task: Task[Any, Any], name: str, sharing: Sharing[Any]) -> Task[Any, Any]:
    """The task with the parts in its model that the sharing method needs."""
    if not sharing.parts:
        return task
    offers = task.offers if isinstance(task, PartsTask) else frozenset()
    if lacking := sharing.parts - offers:
        raise InputError(
            f"sharing {type(sharing).__name__} needs a task that offers {', '.join(sorted(lacking))}, "
            f"which {name!r} with these options does not; it offers {', '.join(sorted(offers)) or 'nothing'}."
        )
    assert isinstance(task, PartsTask), "what offers parts is a PartsTask"
    return task.with_parts(sharing.parts)
