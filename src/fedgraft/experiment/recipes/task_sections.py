"""A recipe's task: its options, its encoder, and the parts that a sharing method needs."""

from dataclasses import MISSING, Field, fields
from typing import Any

from fedgraft.contracts import Sharing, Task
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.encoder_sections import build_encoder
from fedgraft.experiment.recipes.moved_options import check_moved
from fedgraft.experiment.recipes.options import hints_of
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.experiment.recipes.sections import METHODS, STAGES, Section


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
