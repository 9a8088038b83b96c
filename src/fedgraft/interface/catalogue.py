"""What there is, and what it is: recipes and methods with the first lines or all of their own documentation."""

from itertools import chain
from typing import Any

from fedgraft.contracts.data import Data, OwnShardData
from fedgraft.contracts.task_abilities import DerivingTask, PredictingTask
from fedgraft.errors import unknown
from fedgraft.experiment import discovery, experiment, recipe
from fedgraft.reports.studies import study

KINDS = ("recipes", "studies", *discovery.FAMILIES)
"""What can be listed."""


def everything(kind: str | None = None) -> dict[str, dict[str, str]]:
    """{kind: {name: one line}} of one kind or of all. Raises `InputError` for an unknown kind."""
    if kind is not None and kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    return {each: _entries(each) for each in KINDS if kind in (None, each)}


def explain(name: str) -> str:
    """A recipe with all its options resolved, and the documentation of every method of that name."""
    methods = discovery.documentation(name)
    if name not in recipe.recipes() and not methods:
        raise unknown("recipe or method", name, [*recipe.recipes(), *chain(*map(discovery.names, discovery.FAMILIES))])
    parts = [f"# recipe {name}\n\n{experiment.described(name)}"] if name in recipe.recipes() else []
    return "\n\n".join([*parts, *(f"# {family}: {name}\n\n{text}" for family, text in methods.items())])


def tables() -> dict[str, str]:
    """Return {task: the tables in which it is asked, and those of one client's own, as options}."""
    found = {}
    for name in discovery.names("tasks"):
        if issubclass(task := discovery.find("tasks", name), PredictingTask):
            reads = task.reads if issubclass(task, DerivingTask) else name
            own = [each for cls in _data_sets(reads) if issubclass(cls, OwnShardData) for each in cls.own_tables]
            asked, of_client = (", ".join(f"--{each}" for each in names) for names in (task.asks, dict.fromkeys(own)))
            found[name] = f"{asked}; {of_client}" if own else asked
    return found


def _data_sets(task: str) -> list[type[Data[Any]]]:
    """Return the data sets of a task."""
    names = [name for name in discovery.names("data") if name not in discovery.presets("data")]
    return [cls for cls in (discovery.find("data", name) for name in names) if task in (cls.task, *cls.other_tasks)]


def _entries(kind: str) -> dict[str, str]:
    if kind == "recipes":
        return recipe.recipes()
    if kind == "studies":
        return {name: study.load(name).title for name in study.names()}
    return {name: discovery.one_line(kind, name) for name in discovery.names(kind)}
