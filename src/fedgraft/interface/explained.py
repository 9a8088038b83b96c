"""Print what `fedgraft show` says: of recipes, methods, the sections of a recipe, and classes elsewhere."""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from fedgraft.contracts.abilities.predicting import PredictingTask
from fedgraft.contracts.data import ClientTables, Data
from fedgraft.contracts.parts import answering
from fedgraft.errors import InputError, nearest
from fedgraft.experiment.described import described
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.options import Option, about, options
from fedgraft.experiment.recipes.recipe import DEFAULT_NAMES
from fedgraft.experiment.recipes.recipe_files import recipes
from fedgraft.experiment.recipes.sections import METHODS, QUESTIONS, SETTINGS, VALUES, TopLevel

DEFAULTS = {**DEFAULT_NAMES, "codec": "identity", "rows": "identity"}
"""The method of each section that a recipe need not have."""
WIDTH = 120


@dataclass(frozen=True)
class Page:
    """What there is to say of one thing.

    Args:
        title: what it is, and its name.
        about: its documentation; of a recipe, the recipe.
        options: what can be set of it.
        choices: {name: one line} of the methods that a section may name.
    """

    title: str
    about: str
    options: tuple[Option, ...] = ()
    choices: Mapping[str, str] | None = None

    def __str__(self) -> str:
        width = max(map(len, self.choices or {}), default=0)
        names = "\n".join(f"  {name:{width}}  {line}" for name, line in (self.choices or {}).items())
        listed = "\n".join(map(_listed, self.options))
        return "\n\n".join(part for part in (f"# {self.title}", self.about, listed, names) if part)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


def pages(name: str) -> list[Page]:
    """Return a page for everything of a name: a recipe, a section of recipes, methods, or "package.module:Class".

    Raises `InputError`, with the nearest right name, for a name of nothing.
    """
    found = [*_of_recipe(name), *_of_section(name), *_of_methods(name)]
    if not found:
        known = [*recipes(), *METHODS, *SETTINGS, *VALUES, *chain(*map(discovery.names, discovery.FAMILIES))]
        raise InputError(
            f"No recipe, method or section named {name!r}.{nearest(name, known)} All names: fedgraft list; sections: "
            f"{', '.join((*METHODS, *SETTINGS))}."
        )
    return found


def section_page(section: str) -> Page:
    """Return the page of a section, or of the keys outside sections for any of these."""
    if section in SETTINGS:
        return Page(f"section [{section}]", about(SETTINGS[section]), options(SETTINGS[section]))
    if section in VALUES:
        return Page("keys outside sections", "", options(TopLevel))
    family = METHODS[section]
    default = f'\n\nDefault: name = "{DEFAULTS[section]}".' if section in DEFAULTS else ""
    lines = {name: discovery.one_line(family, name) for name in discovery.names(family)}
    return Page(f"section [{section}]", f"{QUESTIONS[section]}{default}", (), lines)


def method_page(family: str, name: str) -> Page:
    """Return the page of a method, by its name in its family or as "package.module:Class"."""
    cls, (_, fixed) = discovery.find(family, name), discovery.presets(family).get(name, (name, {}))
    stands_for = f"{discovery.one_line(family, name)}.\n\n" if fixed else ""
    return Page(f"{family}: {name}", stands_for + about(cls), options(cls, fixed))


def tables() -> dict[str, str]:
    """Return {task: the tables in which it is asked, and those of one client's own, as options}."""
    found = {}
    for name in discovery.names("tasks"):
        task = discovery.find("tasks", name)
        if answers := answering(task, PredictingTask):
            reads = task.reads or name
            own = [each for cls in _data_sets(reads) if issubclass(cls, ClientTables) for each in cls.own_tables]
            told = answers.asks, dict.fromkeys(own)
            asked, of_client = (", ".join(f"--{each}" for each in names) for names in told)
            found[name] = f"{asked}; {of_client}" if own else asked
    return found


def _of_recipe(name: str) -> Iterator[Page]:
    if name in recipes() or name.endswith(".toml"):
        yield Page(f"recipe {name}", described(name))


def _of_section(name: str) -> Iterator[Page]:
    if name in METHODS or name in SETTINGS or name in VALUES:
        yield section_page(name)
    if name in DEFAULTS:
        yield method_page(METHODS[name], DEFAULTS[name])


def _of_methods(name: str) -> Iterator[Page]:
    if ":" in name:
        yield method_page(discovery.family_of(name), name)
        return
    for family in discovery.FAMILIES:
        if name in discovery.names(family):
            yield method_page(family, name)


def _listed(option: Option) -> str:
    default = f" = {option.default}" if option.default else ", must be given"
    text = textwrap.fill(option.text, WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 4, break_on_hyphens=False)
    return f"{option.name}: {option.type}{default}\n{text}"


def _data_sets(task: str) -> list[type[Data[Any]]]:
    """Return the data sets of a task."""
    names = [name for name in discovery.names("data") if name not in discovery.presets("data")]
    return [cls for cls in (discovery.find("data", name) for name in names) if task in (cls.task, *cls.other_tasks)]
