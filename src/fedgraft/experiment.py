"""An experiment: one choice for each of the six questions, plus data, budget and seed, as a recipe says it.

A recipe is TOML: one section per choice, `name` says which method, every other key is one of that method's fields.
Overrides are "section.key=value". Giving a section another name drops the recipe's other options of that section: they
were meant for another method. Unknown sections and keys are errors.
"""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any, get_args, get_type_hints

import tomli_w

from fedgraft import plugins
from fedgraft.clock import Clock
from fedgraft.contracts import Codec, Selector, Task
from fedgraft.errors import InputError, require, require_one_of, unknown
from fedgraft.loop import Evaluation, Stopping
from fedgraft.plan import REPORTED, Plan
from fedgraft.providers import Data, Yardstick
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
class BudgetOptions:
    """What a run may use, whichever ends first.

    Args:
        bytes: on the wire, such as "2MB"; 0 = no limit.
        seconds: of the simulated clock; 0 = no limit.
    """

    bytes: int | str = 0
    seconds: float = 0.0


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


SETTINGS = {
    "training": Training,
    "evaluation": Evaluation,
    "clock": Clock,
    "budget": BudgetOptions,
    "runtime": RuntimeOptions,
    "checkpoint": CheckpointOptions,
}
"""Sections without a name, and what they set."""


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
    stopping: Stopping
    yardsticks: tuple[str, ...]
    clock: Clock
    evaluation: Evaluation
    runtime: RuntimeOptions
    checkpoint: CheckpointOptions

    @property
    def seed(self) -> int:
        """The seed of all randomness."""
        return self.plan.seed

    def to_toml(self) -> str:
        """The resolved recipe; `from_toml` gives the same experiment back."""
        try:
            return tomli_w.dumps({"recipe": self.recipe, **self.sections})
        except TypeError as error:
            raise InputError(
                f"This experiment cannot be stored ({error}). What is given as an object, such as a table in memory, "
                "must be given as a file."
            ) from error

    @classmethod
    def from_toml(cls, text: str) -> "Experiment":
        """An experiment from its resolved recipe."""
        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"The stored experiment is not valid TOML: {error}.") from error
        return build(str(content.pop("recipe", "")), content)

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
    """A recipe's name and its content, from the name of one of ours or the path of a TOML file, a run's included."""
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
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{recipe} is not valid TOML: {error}.") from error
    return str(content.pop("recipe", name)), content


def parse_override(text: str) -> tuple[str, Any]:
    """("section.key", value) of "section.key=value"; the value is read as TOML where it can be, else as a string."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise InputError(f"{text!r} is not an override; write section.key=value, such as budget.bytes=2MB.")
    try:
        return key.strip(), tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def override(content: Section, changes: Mapping[str, Any]) -> Section:
    """`content` with {"section.key": value} applied; names first, since they drop a section's other options."""
    result = {key: dict(value) if isinstance(value, dict) else value for key, value in content.items()}
    for key, value in sorted(changes.items(), key=lambda change: "." in change[0] and not change[0].endswith(".name")):
        section, _, option = key.partition(".")
        if not option:
            result[key] = value
            continue
        if section not in METHODS and section not in SETTINGS:
            raise unknown("section", section, [*METHODS, *SETTINGS])
        current = result.get(section, {})
        if isinstance(current, list):
            result[section] = _override_chain(section, current, option, value)
            continue
        current = _section(result, section, named=section in METHODS)
        changed = option == "name" and current.get("name", _DEFAULT_NAMES.get(section)) != value
        result[section] = {"name": value} if changed else {**current, option: value}
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
    settings = {
        name: plugins.construct(cls, name, _section(content, name, named=False)) for name, cls in SETTINGS.items()
    }
    budget = settings.pop("budget")
    size = parse_bytes(budget.bytes, "budget.bytes")
    stopping = Stopping(rounds, size, budget.seconds, _integer(content, "patience", 0))
    uplink = _build_codec("codec", content.get("codec", {"name": "identity"}))
    plan = Plan(
        task=task,
        sampler=plugins.build("samplers", "sampler", _section(content, "sampler", default="all")),
        sharing=plugins.build("sharing", "sharing", _section(content, "sharing", default="fedavg")),
        downlink=_build_codec("downlink", content["downlink"]) if "downlink" in content else uplink,
        uplink=uplink,
        training=settings["training"],
        needs=selector.needs,
        seed=seed,
        device=settings["runtime"].device,
    )
    yardsticks = _yardsticks(content, data.task)
    resolved = _resolve(content, data, plan, selector, stopping, settings, yardsticks)
    used = {name: settings[name] for name in ("clock", "evaluation", "runtime", "checkpoint")}
    return Experiment(recipe, resolved, data, plan, selector, stopping, yardsticks, **used)


def _section(content: Section, name: str, default: str = "", named: bool = True) -> Section:
    section = content.get(name, {})
    if isinstance(section, str) and named:
        return {"name": section}
    if not isinstance(section, dict):
        raise InputError(f"{name} must be a section such as [{name}]; got {section!r}.")
    return {"name": default, **section} if default else section


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
    codec: Codec[Any] = plugins.build("codecs", section, _section({section: content}, section))
    return codec


def _check_needs(selector: Selector[Any], task: Task[Any, Any]) -> None:
    lacking = selector.needs - task.profile - {*REPORTED, "update"}
    if lacking:
        raise InputError(
            f"selector {type(selector).__name__} needs {', '.join(sorted(lacking))}, which task "
            f"{type(task).__name__} does not report."
        )


def _yardsticks(content: Section, task: str) -> tuple[str, ...]:
    if "yardsticks" not in content:
        return tuple(name for name in DEFAULT_YARDSTICKS if plugins.find("yardsticks", name).task == task)
    given = content["yardsticks"]
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise InputError(f"yardsticks must be a list of names; got {given!r}.")
    known = [*plugins.names("yardsticks"), *TRAINED_YARDSTICKS]
    for name in given:
        if name not in known and ":" not in name:
            raise unknown("yardstick", name, known)
        if name not in TRAINED_YARDSTICKS and plugins.find("yardsticks", name).task != task:
            raise InputError(f"yardstick {name!r} is not for the task {task!r}.")
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
    chain = [_section({section: part}, section) for part in chain]
    having = [
        index
        for index, part in enumerate(chain)
        if option in {field.name for field in fields(plugins.find("codecs", str(part.get("name"))))}
    ]
    if len(having) != 1:
        names = ", ".join(part["name"] for part in chain)
        raise InputError(f"{section}.{option} fits {len(having)} codecs of the chain {names}; it must fit just one.")
    return [{**part, option: value} if index == having[0] else dict(part) for index, part in enumerate(chain)]


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
        "data": _method(_section(content, "data")["name"], data),
        "task": {"name": data.task, **_plain(task_options)},
        **({"model": _method(_section(content, "model")["name"], encoder)} if encoder else {}),
        "selector": _method(_section(content, "selector")["name"], selector),
        "sampler": _method(names["sampler"], plan.sampler),
        "sharing": _method(names["sharing"], plan.sharing),
        "codec": _resolved_codec(content.get("codec", "identity"), plan.uplink),
        **({"downlink": _resolved_codec(content["downlink"], plan.downlink)} if "downlink" in content else {}),
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


def _resolved_codec(content: Any, codec: Any) -> Any:
    """A codec's section, or those of a chain, with every option."""
    if isinstance(content, list):
        return [_resolved_codec(part, built) for part, built in zip(content, codec.codecs, strict=True)]
    return _method(content if isinstance(content, str) else content["name"], codec)


def _method(name: str, built: Any) -> Section:
    paths = {key for key, hint in get_type_hints(type(built)).items() if Path in get_args(hint) or hint is Path}
    return {"name": name, **_plain(plugins.options_of(built), paths)}


def _plain(options: Section, paths: Collection[str] = ()) -> Section:
    """As TOML can hold them: unset options left out, paths absolute, so that a run can be resumed from anywhere."""
    return {
        key: str(Path(value).resolve()) if key in paths and isinstance(value, str | Path) else value
        for key, value in options.items()
        if value is not None
    }
