"""Fit methods to the task that they serve, and check that they suit it and each other."""

from collections.abc import Sequence
from dataclasses import MISSING, fields, replace
from typing import Any

from fedgraft import wire
from fedgraft.contracts import (
    ActiveSampler,
    Aggregation,
    GraphNetworkTask,
    GraphSharing,
    HiddenSharing,
    LayeredSampler,
    LinearSharing,
    LinearTask,
    MovableSharing,
    RefiningSharing,
    ReportingSampler,
    RespondingSharing,
    Sampler,
    Selector,
    ServerOptimizer,
    Sharing,
    SilentSharing,
    StructuredSharing,
    Task,
)
from fedgraft.contracts.abilities.graphs import LocalGraphTask, StructuredTask
from fedgraft.contracts.abilities.tasks import (
    NeighbourSamplingTask,
    ObservedTask,
    ProfiledTask,
    SyntheticTask,
)
from fedgraft.contracts.data import Data
from fedgraft.contracts.labels import JudgedTask
from fedgraft.engine.plan import REPORTED, SCORES, Plan
from fedgraft.errors import InputError, nearest, require
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.wire.layouts import Layout

NO_OPTIMIZER = "none"
"""Name of no server optimiser, for an override of a recipe that has one."""


def fitted_sharing(sharing: Sharing[Any], task: Task[Any, Any]) -> Sharing[Any]:
    """The sharing method, with what it must know of the task: its hidden layer, linear model or number of classes."""
    if isinstance(sharing, LinearSharing):
        return _solving(sharing, task)
    if isinstance(sharing, RespondingSharing):
        return _responding(sharing, task)
    if isinstance(sharing, GraphSharing):
        if not isinstance(task, LocalGraphTask):
            raise _not_shown("looks at clients' parts of a graph whose nodes are classified", sharing, task)
        if isinstance(sharing, RefiningSharing) and not isinstance(task, GraphNetworkTask):
            raise _not_shown("runs the task's model on graphs of its own", sharing, task)
        return sharing.fitted(task.classes)
    if not isinstance(sharing, HiddenSharing):
        return sharing
    if isinstance(sharing, StructuredSharing) and not isinstance(task, StructuredTask):
        raise _hidden_from(f"sharing {type(sharing).__name__}", task, StructuredTask, "nodes and their neighbours")
    if not isinstance(task, ObservedTask):
        raise _hidden_from(f"sharing {type(sharing).__name__}", task)
    return sharing.fitted(task.hidden_width, task.common_classes)


def _not_shown(needs: str, sharing: Sharing[Any], task: Task[Any, Any]) -> InputError:
    """The error for a method that needs more of a graph than the task shows."""
    ability = GraphNetworkTask if isinstance(sharing, RefiningSharing) else LocalGraphTask
    fitting = [name for name in discovery.names("tasks") if issubclass(discovery.find("tasks", name), ability)]
    return InputError(
        f"sharing {type(sharing).__name__} {needs}, which task {type(task).__name__} does not show; "
        f"{', '.join(fitting)} {'does' if len(fitting) == 1 else 'do'}."
    )


def _responding(sharing: RespondingSharing[Any], task: Task[Any, Any]) -> Sharing[Any]:
    """The sharing method, with the width of what models make of data that are nobody's."""
    if isinstance(task, SyntheticTask):
        return sharing.fitted(task.response_width)
    fitting = [name for name in discovery.names("tasks") if issubclass(discovery.find("tasks", name), SyntheticTask)]
    raise InputError(
        f"sharing {type(sharing).__name__} sees what models make of data that are nobody's, which task "
        f"{type(task).__name__} does not draw; {', '.join(fitting)} does."
    )


def _solving(sharing: LinearSharing[Any], task: Task[Any, Any]) -> Sharing[Any]:
    """The sharing method, with the linear model that it solves for."""
    if linear := task.linear if isinstance(task, LinearTask) else None:
        return sharing.fitted(linear)
    name, kinds = type(sharing).__name__, [discovery.find("tasks", each) for each in discovery.names("tasks")]
    fitting = [each.__name__ for each in kinds if issubclass(each, LinearTask)]
    raise InputError(
        f"sharing {name} solves for a linear model, which task {type(task).__name__} with these options does not have; "
        f"{', '.join(fitting)} do with model.name = 'mlp', model.hidden = [] and no other parts."
    )


def affordable(plan: Plan, task: Task[Any, Any], budget: int, clients: int) -> Sharing[Any]:
    """The sharing method, fitted, with uploads of so many clients that half of a byte budget pays for; 0 = none."""
    sharing, uplink = fitted_sharing(plan.sharing, task), plan.uplink
    if not isinstance(sharing, LinearSharing):
        return sharing

    def pays(layout: Layout) -> bool:
        return 2 * clients * wire.message_bytes(uplink.encoded(layout), (), uplink.bounds(layout, layout)) <= budget

    return sharing.within(pays if budget else None)


def _hidden_from(
    method: str, task: Task[Any, Any], ability: type[Any] = ObservedTask, seen: str = "examples"
) -> InputError:
    """The error for a method that sees what a model makes of something, with a task that does not tell."""
    fitting = [name for name in discovery.names("tasks") if issubclass(discovery.find("tasks", name), ability)]
    return InputError(
        f"{method} sees what a model makes of {seen}, which task {type(task).__name__} does not tell; "
        f"{', '.join(fitting)} do."
    )


def fitted_sampler(sampler: Sampler[Any], task: Task[Any, Any]) -> Sampler[Any]:
    """The sampler, with the number of the task's layers if it depends on it."""
    if not isinstance(sampler, LayeredSampler):
        return sampler
    return sampler.fitted(task.layers if isinstance(task, NeighbourSamplingTask) else 0)


def check_told(told: Any, fitted: Any) -> None:
    """Raise `InputError` for an option of a task that is set, and not as the task fitted to the data has it."""
    for each in fields(fitted):
        value, wanted = getattr(told, each.name), getattr(fitted, each.name)
        if each.default is not MISSING and value not in (each.default, wanted):
            raise InputError(f"task.{each.name} must be {wanted!r} with these data; got {value!r}.")


def check_needs(selector: Selector[Any], sampler: Sampler[Any], task: Task[Any, Any]) -> None:
    """Raise `InputError` where task and sampler tell less than selector and sampler need."""
    profile = task.profile if isinstance(task, ProfiledTask) else frozenset()
    reported = sampler.reported if isinstance(sampler, ReportingSampler) else frozenset()
    lacking = selector.reports - profile - reported - {*REPORTED, *SCORES, "update"}
    if lacking:
        raise InputError(
            f"selector {type(selector).__name__} needs {', '.join(sorted(lacking))}, which task "
            f"{type(task).__name__} and sampler {type(sampler).__name__} do not report."
        )
    if isinstance(sampler, ActiveSampler) and not isinstance(task, ObservedTask):
        raise _hidden_from(f"sampler {type(sampler).__name__}", task)


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
    metrics: Sequence[str] = task.metrics if isinstance(task, JudgedTask) else (task.metric,)
    if metric not in metrics:
        raise InputError(
            f"evaluation.metric must be one of {', '.join(metrics)} for the task {name!r}; got {metric!r}."
            f"{nearest(metric, metrics)}"
        )
    return replace(task, judged=metric) if isinstance(task, JudgedTask) else task  # type: ignore[type-var]


def judged_by_data(task: Task[Any, Any], data: Data[Any], shards: Sequence[Any]) -> Task[Any, Any]:
    """Return the task, judged by what suits a user's own tables, and some published data, unless it is said."""
    return task.judged_by(shards, data.judged_by_data) if isinstance(task, JudgedTask) else task
