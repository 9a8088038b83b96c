"""An experiment: one choice for each of the six questions, plus data, budget and seed, as a recipe says it.

A recipe is TOML: one section per choice, `name` says which method, every other key is one of that method's fields.
Overrides are "section.key=value". Giving a section another name drops the recipe's other options of that section: they
were meant for another method. Unknown sections and keys are errors.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

import tomli_w

from fedgraft import plugins
from fedgraft.clock import Clock
from fedgraft.contracts import Codec, Data, Selector, Task, Yardstick
from fedgraft.errors import InputError, require, require_one_of, unknown
from fedgraft.loop import Evaluation, Stopping
from fedgraft.plan import REPORTED, Plan
from fedgraft.text import parse_bytes
from fedgraft.trainer import Training

Section = dict[str, Any]

METHODS = {
    "data": "data",
    "task": "tasks",
    "model": "models",
    "selector": "selectors",
    "sampler": "samplers",
    "codec": "codecs",
    "downlink": "codecs",
    "sharing": "sharing",
}
"""Sections that name a method, and the method's family."""
SETTINGS = ("training", "evaluation", "clock", "budget", "runtime", "checkpoint")
"""Sections without a name."""
VALUES = ("description", "seed", "rounds", "patience", "yardsticks")
"""Keys outside sections."""
DEFAULT_YARDSTICKS = ("global_mean", "central_biases", "client_biases")


@dataclass(frozen=True)
class RuntimeOptions:
    """Where clients live.

    Args:
        workers: worker processes; -1 = one per core, 0 = serve in the calling process.
        threads: torch threads per worker.
        device: "cpu" or "cuda".
        deadline_seconds: how long to wait for a client; 0 = for ever.
    """

    workers: int = -1
    threads: int = 1
    device: str = "cpu"
    deadline_seconds: float = 0.0

    def __post_init__(self) -> None:
        require(self.workers >= -1, "runtime.workers", ">= 0, or -1 for one per core", self.workers)
        require(self.threads >= 1, "runtime.threads", ">= 1", self.threads)
        require_one_of("runtime.device", self.device, ("cpu", "cuda"))
        require(self.deadline_seconds >= 0, "runtime.deadline_seconds", ">= 0 (0 = for ever)", self.deadline_seconds)


@dataclass(frozen=True)
class CheckpointOptions:
    """How often a run is stored.

    Args:
        every_seconds: least seconds between two checkpoints, >= 0; 0 stores every round. The result does not depend
            on it, only how much a resume has to do again.
    """

    every_seconds: float = 1.0

    def __post_init__(self) -> None:
        require(self.every_seconds >= 0, "checkpoint.every_seconds", ">= 0", self.every_seconds)


@dataclass(frozen=True)
class Experiment:
    """A checked experiment; every method is built, nothing is loaded yet.

    `sections` is the recipe fully resolved: every option of every method with its value.
    """

    recipe: str
    sections: Section
    data: Data[Any]
    plan: Plan
    selector: Selector[Any]
    clock: Clock
    stopping: Stopping
    evaluation: Evaluation
    runtime: RuntimeOptions
    checkpoint: CheckpointOptions
    yardsticks: tuple[str, ...]

    @property
    def seed(self) -> int:
        """The seed of all randomness."""
        return self.plan.seed

    def to_toml(self) -> str:
        """The resolved recipe; `from_toml` gives the same experiment back."""
        return tomli_w.dumps({"recipe": self.recipe, **self.sections})

    @classmethod
    def from_toml(cls, text: str) -> "Experiment":
        """An experiment from its resolved recipe."""
        content = tomllib.loads(text)
        recipe = str(content.pop("recipe"))
        return build(recipe, content)

    def with_changes(self, changes: Mapping[str, Any]) -> "Experiment":
        """The same experiment with some keys changed, as by overrides."""
        return build(self.recipe, override(self.sections, changes))


def load(recipe: str, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """An experiment from a recipe's name or TOML file, and overrides {"section.key": value}."""
    name, content = read_recipe(recipe)
    return build(name, override(content, overrides or {}))


def recipes() -> dict[str, str]:
    """Every recipe that comes with fedgraft, and its description."""
    folder = resources.files("fedgraft") / "recipes"
    found = {file.name.removesuffix(".toml"): file.read_text() for file in folder.iterdir() if ".toml" in file.name}
    return {name: str(tomllib.loads(text).get("description", "")) for name, text in sorted(found.items())}


def read_recipe(recipe: str) -> tuple[str, Section]:
    """A recipe's name and its content, from the name of one of ours or the path of a TOML file."""
    if recipe.endswith(".toml"):
        path = Path(recipe)
        if not path.is_file():
            raise InputError(f"No recipe file {recipe}. Recipes that come with fedgraft: {', '.join(recipes())}.")
        text, name = path.read_text(), path.stem
    elif recipe in recipes():
        text, name = (resources.files("fedgraft") / "recipes" / f"{recipe}.toml").read_text(), recipe
    else:
        raise unknown("recipe", recipe, recipes())
    try:
        return name, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{recipe} is not valid TOML: {error}.") from error


def parse_override(text: str) -> tuple[str, Any]:
    """("section.key", value) of "section.key=value"; the value is read as TOML where it can be, else as a string."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise InputError(f"{text!r} is not an override; write section.key=value, such as budget.bytes=2MB.")
    try:
        return key.strip(), tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def override(content: Section, changes: Mapping[str, Any]) -> Section:
    """`content` with {"section.key": value} applied; names first, since they drop a section's other options."""
    result = {key: dict(value) if isinstance(value, dict) else value for key, value in content.items()}
    for key, value in sorted(changes.items(), key=lambda change: not change[0].endswith(".name")):
        section, _, option = key.partition(".")
        if not option:
            result[key] = value
        elif section not in METHODS and section not in SETTINGS:
            raise unknown("section", section, [*METHODS, *SETTINGS])
        elif isinstance(result.get(section), list):
            result[section] = _override_chain(section, result[section], option, value)
        elif option == "name" and result.get(section, {}).get("name") != value:
            result[section] = {"name": value}
        else:
            result.setdefault(section, {})[option] = value
    return result


def build(recipe: str, content: Section) -> Experiment:
    """Check everything and build every method. Raises `InputError` for whatever is wrong."""
    for key in content:
        if key not in METHODS and key not in SETTINGS and key not in VALUES:
            raise unknown("key", key, [*METHODS, *SETTINGS, *VALUES])
    seed, rounds = _integer(content, "seed", 1), _integer(content, "rounds", 60)
    require(seed >= 0, "seed", ">= 0", seed)
    data: Data[Any] = plugins.build("data", "data", _section(content, "data"))
    task = _build_task(content, data)
    selector: Selector[Any] = plugins.build("selectors", "selector", _section(content, "selector"))
    _check_needs(selector, task)
    budget = _section(content, "budget", named=False)
    for key in budget:
        require_one_of("budget option", key, ("bytes", "seconds"))
    stopping = Stopping(
        rounds=rounds,
        bytes=parse_bytes(budget.get("bytes", 0), "budget.bytes"),
        seconds=float(budget.get("seconds", 0.0)),
        patience=_integer(content, "patience", 0),
    )
    settings = {
        name: plugins.construct(cls, name, _section(content, name, named=False))
        for name, cls in (
            ("training", Training),
            ("evaluation", Evaluation),
            ("clock", Clock),
            ("runtime", RuntimeOptions),
            ("checkpoint", CheckpointOptions),
        )
    }
    uplink = _build_codec("codec", content.get("codec", {"name": "identity"}))
    plan = Plan(
        task=task,
        sampler=plugins.build("samplers", "sampler", _section(content, "sampler", default="all")),
        sharing=plugins.build("sharing", "sharing", _section(content, "sharing", default="fedavg")),
        downlink=_build_codec("downlink", content["downlink"]) if "downlink" in content else uplink,
        uplink=uplink,
        training=settings["training"],
        needs=selector.needs,
        rounds=rounds,
        seed=seed,
        device=settings["runtime"].device,
    )
    yardsticks = _yardsticks(content, task)
    resolved = _resolve(content, data, plan, selector, stopping, settings, yardsticks)
    return Experiment(
        recipe=recipe,
        sections=resolved,
        data=data,
        plan=plan,
        selector=selector,
        clock=settings["clock"],
        stopping=stopping,
        evaluation=settings["evaluation"],
        runtime=settings["runtime"],
        checkpoint=settings["checkpoint"],
        yardsticks=yardsticks,
    )


# --- building ---------------------------------------------------------------------------------------------------------


def _section(content: Section, name: str, default: str = "", named: bool = True) -> Section:
    section = content.get(name, {"name": default} if default else {})
    if isinstance(section, str) and named:
        return {"name": section}
    if not isinstance(section, dict):
        raise InputError(f"{name} must be a section such as [{name}]; got {section!r}.")
    return section


def _integer(content: Section, key: str, default: int) -> int:
    value = content.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{key} must be a whole number; got {value!r}.")
    return value


def _build_task(content: Section, data: Data[Any]) -> Task[Any, Any]:
    section = _section(content, "task", default=data.task)
    if section.get("name") != data.task:
        raise InputError(f"task.name = {section.get('name')!r} cannot use this data, which is for {data.task!r}.")
    cls = plugins.find("tasks", data.task)
    options = {key: value for key, value in section.items() if key != "name"}
    if "encoder" in {field.name for field in fields(cls)}:
        options["encoder"] = plugins.build("models", "model", _section(content, "model"))
    elif "model" in content:
        raise InputError(f"task {data.task!r} has a model of its own; leave the section [model] out.")
    built: Task[Any, Any] = plugins.construct(cls, "task", options)
    return built


def _build_codec(section: str, content: Any) -> Codec[Any]:
    if isinstance(content, list):
        chain: Codec[Any] = plugins.find("codecs", "chain")(tuple(_build_codec(section, part) for part in content))
        return chain
    codec: Codec[Any] = plugins.build("codecs", section, {"name": content} if isinstance(content, str) else content)
    return codec


def _check_needs(selector: Selector[Any], task: Task[Any, Any]) -> None:
    lacking = selector.needs - task.profile - {*REPORTED, "update"}
    if lacking:
        raise InputError(
            f"selector {type(selector).__name__} needs {', '.join(sorted(lacking))}, which task "
            f"{type(task).__name__} does not report."
        )


def _yardsticks(content: Section, task: Task[Any, Any]) -> tuple[str, ...]:
    given = content.get("yardsticks", list(DEFAULT_YARDSTICKS))
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise InputError(f"yardsticks must be a list of names; got {given!r}.")
    known = [*plugins.names("yardsticks"), *TRAINED_YARDSTICKS]
    for name in given:
        if name not in known and ":" not in name:
            raise unknown("yardstick", name, known)
    return tuple(given)


TRAINED_YARDSTICKS = ("local_only", "centralised")
"""Yardsticks that train the experiment's own model: by each client alone, and on all data in one place."""


def build_yardstick(name: str) -> Yardstick[Any]:
    """An instance of a yardstick with its default options."""
    yardstick: Yardstick[Any] = plugins.find("yardsticks", name)()
    return yardstick


def _override_chain(section: str, chain: Sequence[Section], option: str, value: Any) -> list[Section] | Section:
    """Set an option of the one codec of a chain that has it."""
    if option == "name":
        return {"name": value}
    having = [
        index
        for index, part in enumerate(chain)
        if option in {field.name for field in fields(plugins.find("codecs", part["name"]))}
    ]
    if len(having) != 1:
        names = ", ".join(part["name"] for part in chain)
        raise InputError(f"{section}.{option} fits {len(having)} codecs of the chain {names}; it must fit just one.")
    return [{**part, option: value} if index == having[0] else dict(part) for index, part in enumerate(chain)]


# --- resolving --------------------------------------------------------------------------------------------------------


def _resolve(
    content: Section,
    data: Data[Any],
    plan: Plan,
    selector: Selector[Any],
    stopping: Stopping,
    settings: Mapping[str, Any],
    yardsticks: tuple[str, ...],
) -> Section:
    """Every option of every method with its value, as TOML can hold it."""
    task_options = plugins.options_of(plan.task)
    encoder = task_options.pop("encoder", None)
    names = {name: _section(content, name, default=d)["name"] for name, d in _DEFAULT_NAMES.items()}
    methods: dict[str, Any] = {
        "data": {"name": _section(content, "data")["name"], **_absolute(plugins.options_of(data))},
        "task": {"name": data.task, **task_options},
        **({"model": {"name": _section(content, "model")["name"], **plugins.options_of(encoder)}} if encoder else {}),
        "selector": {"name": _section(content, "selector")["name"], **plugins.options_of(selector)},
        "sampler": {"name": names["sampler"], **plugins.options_of(plan.sampler)},
        "sharing": {"name": names["sharing"], **plugins.options_of(plan.sharing)},
        "codec": content.get("codec", {"name": "identity"}),
        **({"downlink": content["downlink"]} if "downlink" in content else {}),
    }
    return {
        "description": str(content.get("description", "")),
        "seed": plan.seed,
        "rounds": stopping.rounds,
        "patience": stopping.patience,
        "yardsticks": list(yardsticks),
        **methods,
        **{name: asdict(value) for name, value in settings.items()},
        "budget": {"bytes": stopping.bytes, "seconds": stopping.seconds},
    }


_DEFAULT_NAMES = {"sampler": "all", "sharing": "fedavg"}


def _absolute(options: Section) -> Section:
    """Paths made absolute, so that a run can be resumed from anywhere; unset options left out."""
    return {
        key: str(Path(value).resolve()) if isinstance(value, str) and "/" in value and Path(value).exists() else value
        for key, value in options.items()
        if value is not None
    }
