"""Studies as files: those that come with fedgraft, and a user's own. Nothing of what they name is imported."""

import math
import tomllib
from collections.abc import Collection, Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from fedgraft.errors import InputError, require, require_one_of, unknown

LAYOUTS = ("errors", "accuracy", "targets", "paired", "time", "selectors")
GIVEN = ("recipe", "reference", "methods", "panels")
"""Keys that a study must have."""
ONLY_IN = {
    "tuned": ("paired", "targets", "time", "accuracy", "errors"),
    "target": ("paired", "targets", "time"),
    "controls": ("paired", "errors", "selectors"),
}
"""Layouts that say on which seeds and sets options were chosen, that have a target, that hold against controls."""
KEYS = (*GIVEN, "title", "also", "common", "layout", "targets", "folder", "cuts", "sets", "folds", *ONLY_IN)
_OF_METHODS = ("label", "recipe", "changes", "alone")
_OF_SETS = ("recipe", "changes")
_OF_PANELS = ("title", "data", "partitions", "clients", "runs", "baselines", "first_seed", "paper")


def titles() -> dict[str, str]:
    """Every study that comes with fedgraft, and its title."""
    return {name: str(read_file(name)[1]["title"]) for name in _names()}


def read_file(study: str) -> tuple[str, dict[str, Any]]:
    """A study's name and what its file holds, with what may be left out, from the name of one of ours or a TOML file.

    Raises `InputError` with the nearest right name.
    """
    path = Path(study)
    if not study.endswith(".toml"):
        if study not in _names():
            raise unknown("study", study, _names())
        return study, _whole(study, tomllib.loads((_folder() / f"{study}.toml").read_text()))
    if not path.is_file():
        raise InputError(f"No study file {study}. Studies that come with fedgraft: {', '.join(_names())}.")
    try:
        content = tomllib.loads(path.read_bytes().decode())
    except (ValueError, RecursionError) as error:  # of the bytes, or of the text
        raise InputError(f"{study} is not valid TOML: {error}.") from error
    for panel in content["panels"] if isinstance(content.get("panels"), list) else ():
        if isinstance(panel, dict) and "yardsticks" in panel:  # as files of before say
            panel.setdefault("baselines", panel.pop("yardsticks"))
    try:
        _check(content)
    except InputError as error:
        raise InputError(f"{study}: {error}") from error
    return path.stem, _whole(path.stem, content)


def _whole(name: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study with what its file may leave out."""
    title = content.get("title", name)
    usual = {"title": title, "baselines": [], "paper": {}, "partitions": [""], "clients": [0]}
    runs = [["", method] for method in content["methods"]]
    methods = {method: {"label": method, **options} for method, options in content["methods"].items()}
    panels = tuple({**usual, "runs": runs, **panel} for panel in content["panels"])
    return {**content, "title": title, "methods": methods, "panels": panels}


def _check(content: Mapping[str, Any]) -> None:
    _check_keys("key", content, KEYS)
    for key in GIVEN:
        if key not in content:
            raise InputError(f"{key} must be given. A study has {', '.join(GIVEN)}.")
    layout, methods, panels = content.get("layout", LAYOUTS[0]), content["methods"], content["panels"]
    require_one_of("layout", layout, LAYOUTS)
    for what, named, keys in (("methods", methods, _OF_METHODS), ("sets", content.get("sets", {}), _OF_SETS)):
        if not isinstance(named, Mapping):
            raise InputError(f"{what} must be sections such as [{what}.NAME]; got {named!r}.")
        for name, options in named.items():
            _check_keys(f"key of {what}.{name}", options, keys)
            require(
                isinstance(options.get("alone", False), bool),
                f"alone of {what}.{name}",
                "true or false",
                options.get("alone"),
            )
    _check_names("method for reference", [content["reference"]], methods)
    _check_names("method for also", filter(None, [content.get("also")]), methods)
    require(isinstance(panels, list) and bool(panels), "panels", "tables [[panels]]", panels)
    for panel in panels:
        _check_panel(panel, methods)
    require(layout != "targets" or "target" in content, "target", "given where layout is 'targets'", "no target")
    for key, layouts in ONLY_IN.items():
        require(
            key not in content or layout in layouts,
            "layout",
            f"one of {', '.join(layouts)} where {key} is given",
            layout,
        )
    _check_tuned(content.get("tuned", {}), {data for panel in panels for data in panel["data"]})
    if "target" in content:
        _check_target(content["target"], content)
    controls = content.get("controls", [])
    require(isinstance(controls, list), "controls", "a list of methods", controls)
    _check_names("method in controls", controls, methods)


def _check_panel(panel: Any, methods: Mapping[str, Any]) -> None:
    _check_keys("key of a panel", panel, _OF_PANELS)
    for key in _OF_PANELS[1:6]:
        right = isinstance(panel.get(key, []), list) and (key != "data" or panel.get(key))
        require(bool(right), f"{key} of a panel", "a list", panel.get(key))
    first = panel.get("first_seed", 1)
    require(type(first) is int and first >= 1, "first_seed of a panel", "a whole number of at least 1", first)
    for run in panel.get("runs", []):
        require(isinstance(run, list) and len(run) == 2, "runs of a panel", 'pairs ["MODEL", "METHOD"]', run)
        _check_names("method", run[1:], methods)


def _check_tuned(tuned: Any, known: Collection[str]) -> None:
    """Raise `InputError` unless it names seeds from 1 on, and sets that the study has."""
    _check_keys("key of tuned", tuned, ("seeds", "sets"))
    for key, values in tuned.items():
        require(isinstance(values, list), f"tuned.{key}", "a list", values)
    for seed in tuned.get("seeds", []):
        require(type(seed) is int and seed >= 1, "tuned.seeds", "whole numbers of at least 1", seed)
    _check_names("set in tuned.sets", tuned.get("sets", []), known)


def _check_target(target: Any, content: Mapping[str, Any]) -> None:
    """Raise `InputError` unless it says how many points below a method's best, or what share of that, a target is."""
    _check_keys("key of target", target, ("reference", "below", "share"))
    _check_names("method for target.reference", [target.get("reference", content["reference"])], content["methods"])
    given = [key for key in ("below", "share") if key in target]
    require(len(given) == 1, "target", "a table with either below or share", target)
    value, allowed = target[given[0]], "in (0, 1]" if given == ["share"] else ">= 0 and finite, in points"
    right = type(value) in (int, float) and math.isfinite(value)
    within = right and (0 < value <= 1 if given == ["share"] else value >= 0)
    require(within, f"target.{given[0]}", allowed, value)


def _check_names(what: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise unknown(what, name, known)


def _check_keys(what: str, table: Any, keys: Collection[str]) -> None:
    if not isinstance(table, Mapping):
        raise InputError(f"{what}: expected a table; got {table!r}.")
    _check_names(what, table, keys)


def _folder() -> Any:
    return resources.files("fedgraft.reports") / "studies"


def _names() -> list[str]:
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))
