"""Which baselines a recipe asks for: those of its task, or those that it names."""

from fedgraft.errors import InputError, unknown
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.sections import Section

TRAINED_BASELINES = ("local_only", "centralised", "centralised_cut")
"""Baselines that train the experiment's own model: by each client alone, on all data in one place, and there without
the edges that the clients' cut breaks."""


def baselines_of(content: Section, task: str) -> tuple[str, ...]:
    """Return the names of a recipe's baselines. Raises `InputError` for one that there is not, or not for the task."""
    if "baselines" not in content:
        classes = {name: discovery.find("baselines", name) for name in discovery.names("baselines")}
        return tuple(name for name, cls in classes.items() if cls.default and cls.task == task)
    names = content["baselines"]
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InputError(f"baselines must be a list of names; got {names!r}.")
    known = [*discovery.names("baselines"), *TRAINED_BASELINES]
    for name in names:
        if name not in known and ":" not in name:
            raise unknown("baseline", name, known)
        if name not in TRAINED_BASELINES and discovery.find("baselines", name).task != task:
            raise InputError(f"baseline {name!r} is not for the task {task!r}.")
    return tuple(names)
