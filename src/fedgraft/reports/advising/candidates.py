"""Candidates for advice: for each task a few recipes, what clients can do alone, and what one place could do."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final

from fedgraft.errors import InputError
from fedgraft.experiment.recipes.recipe_files import recipes

LOCAL = "model alone"
"""In place of a baseline's name: a recipe's own model, trained by each client alone."""


@dataclass(frozen=True)
class Candidate:
    """A recipe of ours to try: its name in the table, why it is on the list, and overrides of it.

    `marked` is what a user must agree to before it is tried; "" for nothing. `fixed` are overrides that hold whatever
    the user says, without which it were another recipe.
    """

    name: str
    recipe: str
    why: str
    changes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    marked: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Alone:
    """A baseline that every client computes by itself.

    Args:
        name: of the baseline.
        figure: of a recipe that it is held against: "validation", its score; or "own", where clients of the recipe,
            too, choose by their own validation split, as the baseline's do, which flatters both.
    """

    name: str
    figure: str


@dataclass(frozen=True)
class Choice:
    """The list of a task.

    Args:
        recipes: to try, the most useful first; one that is not among ours is passed over.
        alone: baselines of clients alone, beside the recipe's own model trained alone.
        central: cheap baselines that need all data in one place, the cheapest first.
    """

    recipes: tuple[Candidate, ...]
    alone: tuple[Alone, ...] = ()
    central: tuple[str, ...] = ()


def _listed(shared: Mapping[str, Any], recipes: Sequence[Mapping[str, Any]], **more: Any) -> Choice:
    """Return a task's list, as the file has it; `shared` are the overrides that a candidate is `like`."""
    made = []
    for each in recipes:
        like, changes = shared if "like" in each else {}, each.get("changes", {})
        named = {key: value for key, value in each.items() if key != "like"}
        made.append(Candidate(**{"recipe": each["name"], **named, "changes": {**like, **changes}}))
    alone = tuple(Alone(*pair) for pair in more.get("alone", {}).items())
    return Choice(tuple(made), alone, tuple(more.get("central", ())))


def _read() -> dict[str, Choice]:
    """Return {task: its list} of `candidates.toml`, which lies beside this file."""
    text = resources.files("fedgraft.reports.advising").joinpath("candidates.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    shared = content.pop("as_others_do")
    return {task: _listed(shared, **listed) for task, listed in content.items()}


CHOICES: Final = _read()
"""{task: its list}."""


def choice_of(task: str, agreed: bool) -> Choice:
    """Return a task's list, with marked recipes only if the user `agreed`. Raises `InputError` for other tasks."""
    if task not in CHOICES:
        raise InputError(f"There is no list of recipes for task {task!r}; there is one for {', '.join(CHOICES)}.")
    choice, known = CHOICES[task], recipes()
    tried = tuple(each for each in choice.recipes if each.recipe in known and (agreed or not each.marked))
    return Choice(tried, choice.alone, choice.central)
