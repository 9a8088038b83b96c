"""Which task an experiment is for: that of its data, or another one that its data can be made for."""

from collections.abc import Mapping
from typing import Any

from fedgraft.contracts.abilities.tasks import DerivingTask
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.experiment.recipes.sections import Section


def task_of(recipe: Recipe) -> tuple[str, Section]:
    """Return the task's name, and the section [data] with the options that make its shards for that task.

    The section [task] says which; else the options of [data] do.

    Raises `InputError` where the data are for other tasks, or [data] is as another task needs it.
    """
    section = recipe.section("data")
    cls = discovery.class_of("data", "data", section)
    others: Mapping[str, Mapping[str, Any]] = cls.other_tasks
    own = {**discovery.presets("data").get(str(section["name"]), ("", {}))[1], **section}
    meant = next((task for task, options in others.items() if options and options.items() <= own.items()), cls.task)
    name = recipe.section("task").get("name", meant)
    if name not in (cls.task, *others) and not _derives(name, cls.task):
        known = " or ".join(
            map(repr, (cls.task, *others, *filter(lambda each: _derives(each, cls.task), discovery.names("tasks"))))
        )
        raise InputError(f"task.name = {name!r} cannot use this data, which is for {known}.")
    needed = others.get(name, {})
    for option, value in needed.items():
        if (present := own.get(option, value)) != value:
            raise InputError(f"data.{option} must be {value!r} for the task {name!r}; got {present!r}.")
    if name != meant and meant != cls.task:
        settings = ", ".join(f"data.{option} = {value!r}" for option, value in others[meant].items())
        raise InputError(f"{settings} is for the task {meant!r}; got task.name = {name!r}.")
    return name, {**section, **needed}


def _derives(name: str, reads: str) -> bool:
    """Return whether a task derives its shards from those of another, or is a kind of that one."""
    if name == reads or (name not in discovery.names("tasks") and ":" not in name):
        return False
    cls = discovery.find("tasks", name)
    return issubclass(cls, discovery.find("tasks", reads)) or (issubclass(cls, DerivingTask) and cls.reads == reads)
