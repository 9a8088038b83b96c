"""Fit methods to the task that they serve, and check that they suit it and each other."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, NamedTuple, TypeVar

from fedgraft import wire
from fedgraft.contracts import (
    ActiveSampler,
    Aggregation,
    GraphNetworkTask,
    LinearTask,
    MovableSharing,
    Sampler,
    Selector,
    ServerOptimizer,
    Sharing,
    SilentSharing,
    Task,
    TaskFacts,
)
from fedgraft.contracts.abilities.graphs import LocalGraphTask, StructuredTask
from fedgraft.contracts.abilities.tasks import ObservedTask, SyntheticTask
from fedgraft.contracts.facts import FittedMethod
from fedgraft.contracts.parts import has
from fedgraft.engine.plan import REPORTED, SCORES, Plan
from fedgraft.engine.protocol.table import OUTSIDE
from fedgraft.errors import InputError, nearest, require
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.wire.layouts import Layout

Method = TypeVar("Method", bound=FittedMethod)

NO_OPTIMIZER = "none"
"""Name of no server optimiser, for an override of a recipe that has one."""


class _Need(NamedTuple):
    """What an ability of a task is to a method: `sees` what it looks at, and what a task without it does not do."""

    sees: str
    lacks: str = "does not show"
    how: str = ""


_NEEDS: Mapping[type[Any], _Need] = {
    StructuredTask: _Need("sees what a model makes of nodes and their neighbours", "does not tell"),
    ObservedTask: _Need("sees what a model makes of examples", "does not tell"),
    LocalGraphTask: _Need("looks at clients' parts of a graph whose nodes are classified"),
    GraphNetworkTask: _Need("runs the task's model on graphs of its own"),
    SyntheticTask: _Need("sees what models make of data that are nobody's", "does not draw"),
    LinearTask: _Need(
        "solves for a linear model",
        "with these options does not have",
        " with model.name = 'mlp', model.hidden = [] and no other parts",
    ),
}


def fitted_to(method: Method, kind: str, task: Task[Any, Any]) -> Method:
    """The method of this kind, such as "sharing", with what it must know of the task.

    Raises `InputError` where the task has not what the method needs.
    """
    check_task(method, kind, task)
    return method.fitted(TaskFacts.of(task, method.needs))


def check_task(method: FittedMethod, kind: str, task: Task[Any, Any]) -> None:
    """Raise `InputError` where the task has not what a method of this kind, such as "sharing", needs."""
    for ability in method.needs:
        if not task.ability(ability) or (ability is LinearTask and TaskFacts.of(task, (ability,)).linear is None):
            need = _NEEDS.get(ability) or _Need(f"needs a {ability.__name__}", "is not")
            kinds = [(name, discovery.find("tasks", name)) for name in discovery.names("tasks")]
            fit = [(name, cls) for name, cls in kinds if all(has(cls, each) for each in method.needs)]
            able = [cls.__name__ if need.how else name for name, cls in fit]
            raise InputError(
                f"{kind} {type(method).__name__} {need.sees}, which task {type(task).__name__} {need.lacks}; "
                f"{', '.join(able)} {'does' if len(able) == 1 else 'do'}{need.how}."
            )


def affordable(plan: Plan, task: Task[Any, Any], budget: int, clients: int) -> Sharing[Any]:
    """The sharing method, fitted, with uploads of so many clients that half of a byte budget pays for; 0 = none."""
    uplink = plan.uplink

    def pays(layout: Layout) -> bool:
        return 2 * clients * wire.message_bytes(uplink.encoded(layout), (), uplink.bounds(layout, layout)) <= budget

    return fitted_to(plan.sharing, "sharing", task).within(pays if budget else None)


def check_told(told: Any, fitted: Any) -> None:
    """Raise `InputError` for an option of a task that is set, and not as the task fitted to the data has it."""
    for each in fields(fitted):
        value, wanted = getattr(told, each.name), getattr(fitted, each.name)
        if each.default is not MISSING and value not in (each.default, wanted):
            raise InputError(f"task.{each.name} must be {wanted!r} with these data; got {value!r}.")


def check_needs(selector: Selector[Any], sampler: Sampler[Any], task: Task[Any, Any]) -> None:
    """Raise `InputError` where task and sampler tell less than selector and sampler need."""
    reported = sampler.reported if isinstance(sampler, ActiveSampler) else frozenset()
    outside = frozenset[str]().union(*(names for names, _ in OUTSIDE.values()))
    lacking = selector.reports - task.profile - reported - {*REPORTED, *SCORES, "update"} - outside
    if lacking:
        raise InputError(
            f"selector {type(selector).__name__} needs {', '.join(sorted(lacking))}, which task "
            f"{type(task).__name__} and sampler {type(sampler).__name__} do not report."
        )
    check_task(sampler, "sampler", task)


def check_merging(sharing: Sharing[Any], decay: float, aggregation: Aggregation, clip: float) -> None:
    """Raise `InputError` for a running mean of models that nobody has in common, and for sums treated as steps."""
    if not sharing.uploads_steps:
        sums = f"with sharing {type(sharing).__name__}, whose clients send no steps of a model"
        sound = isinstance(aggregation, discovery.find("aggregation", "mean"))
        require(sound, "aggregation.name", f"'mean' {sums}", type(aggregation).__name__)
        require(not clip, "safeguards.clip", f"0 {sums}", clip)
    if isinstance(sharing, SilentSharing):  # a mean is nobody's model there
        allowed = f"0 with sharing {type(sharing).__name__}, whose clients are scored with the model that they keep"
        require(decay == 0, "evaluation.averaging", allowed, decay)


def server_optimizer_of(recipe: Recipe, sharing: Sharing[Any]) -> ServerOptimizer[Any] | None:
    """The server optimiser of a recipe, None for none.

    Raises `InputError` where the sharing method's models cannot be moved.
    """
    section = recipe.section("server_optimizer", default=NO_OPTIMIZER)
    if section == {"name": NO_OPTIMIZER}:
        return None
    if section["name"] == NO_OPTIMIZER:
        known = ", ".join(discovery.names("server_optimizers"))
        raise InputError(f"[server_optimizer] needs a name for {', '.join(section.keys() - {'name'})}. Known: {known}.")
    built: ServerOptimizer[Any] = discovery.build("server_optimizers", "server_optimizer", section)
    if not isinstance(sharing, MovableSharing):
        every = discovery.names("sharing")
        fit = [name for name in every if issubclass(discovery.find("sharing", name), MovableSharing)]
        raise InputError(
            f"server_optimizer.name = {section['name']!r} moves a global model, which sharing {type(sharing).__name__} "
            f"does not let it; {', '.join(fit)} do."
        )
    return built


def judged(task: Task[Any, Any], metric: str, name: str) -> Task[Any, Any]:
    """Return the task, judged by the metric that is asked for; "" leaves it. `name` is the task's, for errors."""
    if not metric:
        return task
    if metric not in task.metrics:
        raise InputError(
            f"evaluation.metric must be one of {', '.join(task.metrics)} for the task {name!r}; got {metric!r}."
            f"{nearest(metric, task.metrics)}"
        )
    return replace(task, judged=metric) if hasattr(task, "judged") else task  # type: ignore[type-var]
