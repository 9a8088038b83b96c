"""A recipe's task: which it is, its options, its encoder, its baselines, and the parts that a sharing method needs."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from fedgraft.contracts import Sharing, Task
from fedgraft.contracts.encoder import Encoder, LayeredEncoder
from fedgraft.contracts.given_networks import imported, is_given
from fedgraft.errors import InputError, require, unknown
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.options import hints_of
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.experiment.recipes.sections import METHODS, STAGES, Section
from fedgraft.experiment.recipes.upgrading import check_moved

TRAINED_BASELINES = ("local_only", "centralised", "centralised_cut")
"""Baselines that train the experiment's own model: by each client alone, on all data in one place, and there without
the edges that the clients' cut breaks."""


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
    return issubclass(cls, discovery.find("tasks", reads)) or bool(cls.reads == reads)


def build_encoder(section: Section, task: str, needed: type[Encoder]) -> Encoder:
    """Return the encoder of a section, which must be of the kind that a task needs."""
    used = without_layers(section)
    if "layers" not in used and "layers" in section:
        wanted, layers = len(section["hidden"]), section["layers"]
        require(layers == wanted, "model.layers", f"{wanted}, as many as model.hidden has widths, or left out", layers)
    built: Encoder = discovery.build("models", "model", used)
    if not isinstance(built, needed):
        fitting = [name for name in discovery.names("models") if issubclass(discovery.find("models", name), needed)]
        raise InputError(f"model {section['name']!r} does not fit task {task!r}; {', '.join(fitting)} do.")
    return built


def without_layers(section: Section) -> Section:
    """A model's section but for `layers` where `hidden` is a list, which says how many there are."""
    if not isinstance(section.get("hidden"), list | tuple):
        return section
    if not issubclass(discovery.class_of("models", "model", section), LayeredEncoder):
        return section
    return {key: value for key, value in section.items() if key != "layers"}


def with_encoder(recipe: Recipe) -> Recipe:
    """Return a recipe whose [model] names an encoder; where it named a class of torch, the one that takes that.

    Raises `InputError` where no encoder does.
    """
    section = recipe.section("model")
    path = section.get("name", "")
    if not isinstance(path, str) or ":" not in path or is_given(path):
        return recipe
    value = imported(path, "model.name")
    if isinstance(value, type) and issubclass(value, Encoder):
        return recipe
    options = {key: value for key, value in section.items() if key != "name"}
    for name in discovery.names("models"):
        if (taken := discovery.find("models", name).options_from(path, value, options)) is not None:
            return recipe.with_sections({"model": {"name": name, **taken}})
    raise InputError(
        f"model.name = {path!r} must be a class of torch.nn.Module, or an encoder of fedgraft; got {value!r}."
    )


def build_task(recipe: Recipe, name: str, sharing: Sharing[Any]) -> Task[Any, Any]:
    """The task of this name."""
    cls = discovery.find("tasks", name)
    options = {key: value for key, value in recipe.section("task", default=name).items() if key != "name"}
    check_moved(options, cls)
    if stages := sorted({*options} & {*STAGES.values()}):
        section = next(each for each, field in STAGES.items() if field == stages[0])
        raise InputError(f"task.{stages[0]} is set in a section of its own, [{section}].")
    for section, stage in STAGES.items():
        if field := next((each for each in fields(cls) if each.name == stage), None):
            options[stage] = _stage(recipe.section(section), section, name, field, hints_of(cls)[stage])
        elif section in recipe.sections:
            has = "has a model of its own" if section == "model" else f"has no [{section}]"
            raise InputError(f"task {name!r} {has}; leave the section [{section}] out.")
    discovery.check_keys("tasks", cls, "task", name, options)
    return _with_parts(discovery.construct(cls, "task", options), name, sharing)


def stage_name(recipe: Recipe, section: str, stage: Any) -> str:
    """Return the name of a stage that a recipe's section, which need not have a name, has made."""
    return str(recipe.section(section).get("name") or discovery.name_of(METHODS[section], type(stage)))


def _stage(said: Section, section: str, task: str, field: "Field[Any]", needed: Any) -> Any:
    """The stage of a task that a section makes, by default the task's own."""
    if section == "model":
        return build_encoder(said, task, needed)
    family, usual = METHODS[section], field.default
    if not said and usual is not MISSING:
        return usual
    named = {} if usual is MISSING else {"name": discovery.name_of(family, type(usual))}
    built = discovery.build(family, section, {**named, **said})
    if isinstance(built, needed):
        return built
    own = sorted({*discovery.names(family)} - {*discovery.presets(family)})
    fitting = [name for name in own if issubclass(discovery.find(family, name), needed)]
    does = "does" if len(fitting) == 1 else "do"
    raise InputError(f"{section} {said['name']!r} does not fit task {task!r}; {', '.join(fitting)} {does}.")


def _with_parts(task: Task[Any, Any], name: str, sharing: Sharing[Any]) -> Task[Any, Any]:
    """The task with the parts in its model that the sharing method needs."""
    if not sharing.parts:
        return task
    if lacking := sharing.parts - task.offers:
        raise InputError(
            f"sharing {type(sharing).__name__} needs a task that offers {', '.join(sorted(lacking))}, "
            f"which {name!r} with these options does not; it offers {', '.join(sorted(task.offers)) or 'nothing'}."
        )
    return task.with_parts(sharing.parts)


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
