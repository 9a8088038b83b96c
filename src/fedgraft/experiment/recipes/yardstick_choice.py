"""Which yardsticks a recipe asks for: those of its task, or those that it names."""

from fedgraft.errors import InputError, unknown
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.sections import Section

TRAINED_YARDSTICKS = ("local_only", "centralised", "centralised_cut")
"""Yardsticks that train the experiment's own model: by each client alone, on all data in one place, and there without
the edges that the clients' cut breaks."""


def yardsticks_of(content: Section, task: str) -> tuple[str, ...]:
    """Return the names of a recipe's yardsticks. Raises `InputError` for one that there is not, or not for the task."""
    if "yardsticks" not in content:
        classes = {name: discovery.find("yardsticks", name) for name in discovery.names("yardsticks")}
        return tuple(name for name, cls in classes.items() if cls.default and cls.task == task)
    names = content["yardsticks"]
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InputError(f"yardsticks must be a list of names; got {names!r}.")
    known = [*discovery.names("yardsticks"), *TRAINED_YARDSTICKS]
    for name in names:
        if name not in known and ":" not in name:
            raise unknown("yardstick", name, known)
        if name not in TRAINED_YARDSTICKS and discovery.find("yardsticks", name).task != task:
            raise InputError(f"yardstick {name!r} is not for the task {task!r}.")
    return tuple(names)
