"""Recipes: how they are read, and how a command line changes them.

A recipe is TOML: one section per choice, `name` says which method, every other key is one of that method's fields.
Overrides are "section.key=value". Giving a section another name drops the recipe's other options of that section: they
were meant for another method. What other methods want in their place a recipe may say itself:

    [alternatives.sharing."*"]          # with any other sharing method than the recipe's own
    codec = { name = "identity" }
    [alternatives.model.gcn]            # with this very model
    model = { layers = 2 }
    rounds = 30

A file with `extends = "fedacs"`, or the path of another file, overrides that recipe by the same rules.
"""

import os
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import date, time
from functools import lru_cache
from pathlib import Path
from typing import Any

import tomli_w

from fedgraft.contracts.option_groups import settable
from fedgraft.errors import InputError, require, unknown
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe_files import read_file, recipes
from fedgraft.experiment.recipes.sections import METHODS, SETTINGS, STAGES, VALUES, Section

DEFAULT_NAMES = {"sampler": "all", "sharing": "fedavg", "aggregation": "mean", "runtime": "processes"}
"""Methods of sections that a recipe need not have."""
ANY = "*"
RENAMED = {
    "sharing.averaging": "evaluation.averaging",
    "sharing.least": "sharing.min_group_size",
    "task.rare": "task.positive_class",
    "data.unknown": "data.na_labels",
    "data.repeats": "data.duplicate_edges",
    "data.least_examples": "data.min_examples",
    "yardsticks": "baselines",
}
"""{earlier name of a key: its name now}; recipes may have either, where a method has no option of the earlier one."""
EXTENDS = "extends"
"""Key of the recipe that a file starts from."""
_NAMED = frozenset((*METHODS, "name", "codecs", "baselines", "yardsticks", "module"))
"""Keys under which a class may be named."""
_ALTERNATIVE = '[alternatives.{section}."*"]'
_LIMITS = ("rounds", "patience")
"""Keys outside sections that an alternative may hold."""


@dataclass(frozen=True)
class Recipe:
    """A recipe: its name and its sections, read once.

    Args:
        name: of the recipe, or of the file.
        sections: {key, or name of a section: its value, or its options}; of one that is extended nothing is left out.
        asked: options, "section.key", that its user has set, in a file of his own or beside a recipe.
    """

    name: str
    sections: Section
    asked: frozenset[str] = field(default_factory=frozenset, compare=False)

    @classmethod
    def read(cls, recipe: str) -> "Recipe":
        """Read one of ours by its name, or a TOML file by its path, a run's included."""
        name, content = _read(recipe, ())
        return cls(name, content, _own_options(recipe))

    @classmethod
    def parsed(cls, text: str, where: str) -> "Recipe":
        """Parse a resolved recipe, unchecked; `where` it is, for errors."""
        content = contents(text, where)
        return cls(str(content.pop("recipe", "")), content)

    def changed(self, changes: Mapping[str, Any]) -> "Recipe":
        """Return it with overrides, {"section.key": value}, which are not noted as its user's."""
        return replace(self, sections=override(self.sections, changes))

    def with_sections(self, sections: Mapping[str, Any]) -> "Recipe":
        """Return it with some sections replaced."""
        return replace(self, sections={**self.sections, **sections})

    def asking(self, options: Collection[str]) -> "Recipe":
        """Return it with more options that its user has set."""
        return replace(self, asked=self.asked | {*options})

    def section(self, name: str, default: str = "", named: bool = True) -> Section:
        """Return a section as a table; where it names a method, the name alone stands for it, `default` for none."""
        return section_of(self.sections, name, default, named)

    def integer(self, key: str, default: int) -> int:
        """Return the whole number under a key outside sections. Raises `InputError` for anything else."""
        if isinstance(value := self.sections.get(key, default), bool) or not isinstance(value, int):
            raise InputError(f"{key} must be a whole number; got {value!r}.")
        return value

    def to_toml(self) -> str:
        """Return it as TOML; `parsed` gives the same recipe back."""
        try:
            return tomli_w.dumps({"recipe": self.name, **self.sections})
        except TypeError as error:
            why = f"({error}). What is given as an object, such as a table in memory, must be given as a file."
            raise InputError(f"This experiment cannot be stored {why}") from error


def _own_options(recipe: str) -> frozenset[str]:
    """Return the options, "section.key", that a user's file says, with other files that it extends; none of ours."""
    if not recipe.endswith(".toml"):
        return frozenset()
    content = read_file(recipe)[1]
    base = str(content.pop(EXTENDS, ""))
    own = frozenset(as_changes(renamed(content)))
    return own | _own_options(str(Path(recipe).parent / base) if base.endswith(".toml") else base)


def is_usual(recipe: str, section: str, option: str, value: object) -> bool:
    """Return whether a recipe is one of ours and has this value for an option."""
    return recipe in recipes() and section_of(read_file(recipe)[1], section).get(option) == value


def outside_names(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return every "package.module:Class" that a recipe names, sorted; nothing is imported."""
    return tuple(sorted(set(_outside(content, ""))))


def parse_override(text: str) -> tuple[str, Any]:
    """("section.key", value) of "section.key=value"; the value is read as TOML where it can be, else as a string."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise InputError(f"{text!r} is not an override; write section.key=value, such as budget.bytes=2MB.")
    try:
        read = tomllib.loads(f"value = {value.strip()}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        read = value.strip()
    is_time = isinstance(read, date | time)  # such as data.shares=20:40:40; no option is a time
    return key.strip(), value.strip() if is_time else read


def override(content: Section, changes: Mapping[str, Any]) -> Section:
    """`content` with {"section.key": value} applied; names first, since they drop a section's other options."""
    check_alternatives(content)
    changes = {_now(key, content, changes): value for key, value in changes.items()}
    result = {key: dict(value) if isinstance(value, dict) else value for key, value in content.items()}
    for key, value in changes.items():
        section, _, option = key.partition(".")
        if option == "name" and section in METHODS and _name(result.get(section), section) != value:
            _drop_stages(result, section)
            _apply_alternative(result, section, value)
    for key, value in sorted(changes.items(), key=lambda change: "." in change[0] and not change[0].endswith(".name")):
        section, _, option = key.partition(".")
        if not option:
            result[key] = value
            continue
        if section not in METHODS and section not in SETTINGS:
            raise unknown("section", section, [*METHODS, *SETTINGS])
        chain = _chain(result.get(section))
        if chain is not None and option not in ("name", "codecs"):
            result[section] = _override_chain(section, result[section], chain, option, value)
            continue
        if option == "name":
            had = _name(result.get(section), section)
            changed = chain is not None or (had != value and not _is_named(section, had, result, value))
            result[section] = {"name": value} if changed else {**section_of(result, section), "name": value}
        else:
            result[section] = {**section_of(result, section, named=section in METHODS), option: value}
    _check_integers(result)
    return result


def renamed(content: Section) -> Section:
    """Return a recipe with earlier names of options replaced by those of now."""
    result = dict(content)
    for old, new in RENAMED.items():
        (before, _, option), (after, _, name) = old.partition("."), new.partition(".")
        section = result.get(before)
        if not option and before in result:
            result.setdefault(after, result.pop(before))
        elif isinstance(section, Mapping) and option in section and _now(old, content, {}) == new:
            result[before] = {key: value for key, value in section.items() if key != option}
            result[after] = {name: section[option], **section_of(result, after, named=False)}
    return result


def _now(key: str, content: Section, changes: Mapping[str, Any]) -> str:
    """Return the name that a key has now; its own where the section's method has an option of that name."""
    section, _, option = key.partition(".")
    if key not in RENAMED or not option or section not in METHODS:
        return RENAMED.get(key, key)
    given = content.get(section, {})
    name = changes.get(f"{section}.name", given.get("name", "") if isinstance(given, Mapping) else given)
    try:
        return key if option in settable(discovery.find(METHODS[section], str(name))) else RENAMED[key]
    except InputError:  # a method that there is not, which is said elsewhere
        return RENAMED[key]


def section_of(content: Section, name: str, default: str = "", named: bool = True) -> Section:
    """A section as a table; where it names a method, the name alone stands for it, and `default` for none."""
    section = content.get(name, {})
    if isinstance(section, str) and named:
        return {"name": section}
    if not isinstance(section, dict):
        raise InputError(f"{name} must be a section such as [{name}]; got {section!r}.")
    return {"name": default, **section} if default else section


def check_alternatives(content: Section) -> None:
    """Raise `InputError` unless what a recipe has under "alternatives" can be put in place."""
    by_section = content.get("alternatives", {})
    _check_table("alternatives", by_section, f"sections such as {_ALTERNATIVE.format(section='sharing')}")
    for section, by_name in by_section.items():
        if section not in METHODS:
            raise unknown("section of alternatives", section, METHODS)
        _check_table(f"alternatives.{section}", by_name, f"sections such as {_ALTERNATIVE.format(section=section)}")
        for name, wanted in by_name.items():
            place = f"alternatives.{section}.{name}"
            _check_table(place, wanted, "sections")
            for key, options in wanted.items():
                if key not in (*METHODS, *SETTINGS, *_LIMITS):
                    raise unknown("section", key, [*METHODS, *SETTINGS, *_LIMITS])
                if key == section or key in SETTINGS:
                    _check_table(f"{place}.{key}", options, "options")


def _read(recipe: str, extending: tuple[str, ...]) -> tuple[str, Section]:
    """Read a recipe that others extend, each the one before it; `extending` is where these are."""
    name, content = read_file(recipe)
    return name, _extended(recipe, content, extending) if EXTENDS in content else content


def _extended(recipe: str, content: Section, extending: tuple[str, ...]) -> Section:
    """Return what a recipe holds that extends another one."""
    base = content.pop(EXTENDS)
    if not isinstance(base, str):
        raise InputError(f"{recipe}: {EXTENDS} must be a recipe's name or the path of a TOML file; got {base!r}.")
    if base.endswith(".toml"):
        base = str(Path(recipe).parent / base)
    line = (*extending, os.path.normpath(recipe))
    if os.path.normpath(base) in line:
        raise InputError(f"{recipe}: {EXTENDS} leads back to itself: {' -> '.join((*line, base))}.")
    try:
        _, before = _read(base, line)
        return override(before, as_changes(content))
    except InputError as error:
        raise InputError(f"{recipe}: {error}") from error


def as_changes(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the overrides {"section.key": value} that say what a recipe says."""
    changes: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, Mapping) and key not in VALUES:
            changes.update({f"{key}.{option}": each for option, each in value.items()})
        else:
            changes[f"{key}.name" if key in METHODS and isinstance(value, str) else key] = value
    return changes


def _outside(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _outside(each, name)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _outside(each, key)
    elif isinstance(value, str) and ":" in value and key in _NAMED:
        yield value


def _check_integers(content: Section) -> None:
    """Raise `InputError` for a whole number that TOML cannot hold, nor any count of this machine."""
    waiting = [*content.items()]  # not by recursion: content may be nested without end
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, int):
            require(-(2**63) <= value < 2**63, key, "a whole number of at most 64 bits", value)
        elif isinstance(value, Mapping):
            waiting += [(f"{key}.{name}", each) for name, each in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(f"{key}[{place}]", each) for place, each in enumerate(value)]


def _check_table(parameter: str, value: object, held: str) -> None:
    if not isinstance(value, Mapping):
        raise InputError(f"{parameter} must hold {held}; got {value!r}.")


def _name(section: Any, key: str) -> Any:
    """The method that a section names; "" for a chain."""
    if isinstance(section, Mapping):
        return section.get("name", DEFAULT_NAMES.get(key))
    return section if isinstance(section, str) else DEFAULT_NAMES.get(key) if section is None else ""


def _apply_alternative(result: Section, section: str, name: Any) -> None:
    """Put in place what the recipe wants where a section names another method."""
    by_name = result.get("alternatives", {}).get(section, {})
    wanted = by_name.get(name, by_name.get(ANY, {}))
    if "task" in wanted:
        _drop_stages(result, "task")
    for key, options in wanted.items():
        if key == section:
            result[key] = {"name": name, **options}
        else:
            result[key] = {**result.get(key, {}), **options} if key in SETTINGS else options


def _is_named(section: str, had: Any, result: Section, name: Any) -> bool:
    """Return whether a stage without a name is given one whose method has all that it sets: it may be the default."""
    if section not in STAGES or had is not None:
        return False
    return {*section_of(result, section)} <= {*settable(discovery.find(METHODS[section], str(name)))}


def _drop_stages(result: Section, section: str) -> None:
    """Leave out the stages of a task where the section is that of another task: they were meant for it."""
    for stage in STAGES if section == "task" else ():
        if stage != "model":
            result.pop(stage, None)


def _chain(section: Any) -> Sequence[Section] | None:
    """The codecs of a section that chains some; None for any other."""
    if isinstance(section, Mapping) and section.get("name") == "chain":
        section = section.get("codecs", [])
    return section if isinstance(section, list | tuple) else None


def _override_chain(section: str, content: Any, chain: Sequence[Section], option: str, value: Any) -> Any:
    """Set an option of the one codec of a chain that has it; error feedback is the chain's own."""
    if option == "feedback":
        return {"name": "chain", "codecs": list(chain), option: value}
    parts = [section_of({section: part}, section) for part in chain]
    having = [
        index for index, part in enumerate(parts) if option in settable(discovery.find("codecs", str(part.get("name"))))
    ]
    if len(having) != 1:
        names = ", ".join(part["name"] for part in parts)
        raise InputError(f"{section}.{option} fits {len(having)} codecs of the chain {names}; it must fit just one.")
    parts[having[0]] = {**parts[having[0]], option: value}
    return {**content, "codecs": parts} if isinstance(content, Mapping) else parts


def contents(text: str, where: str) -> Section:
    """Return what a resolved recipe says, unchecked; `where` it is, for errors."""
    try:
        return deepcopy(_parsed(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{where} is not valid TOML: {error}.") from error


@lru_cache(maxsize=8)  # a run reads its own recipe many times, and to parse takes ten times as long as to copy
def _parsed(text: str) -> Section:
    return tomllib.loads(text)
