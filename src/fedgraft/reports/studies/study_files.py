"""Studies as files: those that come with fedgraft, and a user's own. Nothing of what they name is imported."""

import math
import tomllib
from collections.abc import Collection, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from fedgraft.errors import InputError, require, require_one_of, unknown

LAYOUTS = ("errors", "accuracy", "targets", "paired", "time", "selectors")
GIVEN = ("recipe", "reference", "methods", "panels")
"""Keys that a study must have."""
TUNED_IN = ("paired", "targets", "time", "accuracy", "errors")
"""Layouts that say on which seeds and sets options were chosen."""
TARGET_IN = ("paired", "targets", "time")
"""Layouts with a target that is fixed beforehand; "targets" cannot do without."""
CONTROLS_IN = ("paired", "errors", "selectors")
"""Layouts that hold methods against controls."""
KEYS = (
    *GIVEN,
    "title",
    "also",
    "common",
    "layout",
    "targets",
    "folder",
    "cuts",
    "sets",
    "folds",
    "tuned",
    "target",
    "controls",
)
_OF_METHODS = ("label", "recipe", "changes", "alone")
_OF_SETS = ("recipe", "changes")
_OF_PANELS = ("title", "data", "partitions", "clients", "runs", "yardsticks", "first_seed", "paper")


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
    try:
        _check(content)
    except InputError as error:
        raise InputError(f"{study}: {error}") from error
    return path.stem, _whole(path.stem, content)


def _whole(name: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study with what its file may leave out."""
    title = content.get("title", name)
    usual = {"title": title, "yardsticks": [], "paper": {}, "partitions": [""], "clients": [0]}
    runs = [["", method] for method in content["methods"]]
    methods = {method: {"label": method, **options} for method, options in content["methods"].items()}
    panels = tuple({**usual, "runs": runs, **panel} for panel in content["panels"])
    return {**content, "title": title, "methods": methods, "panels": panels}


def _check(content: Mapping[str, Any]) -> None:
    _check_keys("key", content, KEYS)
    for key in GIVEN:
        if key not in content:
            raise InputError(f"{key} must be given. A study has {', '.join(GIVEN)}.")
    require_one_of("layout", content.get("layout", LAYOUTS[0]), LAYOUTS)
    methods, panels = content["methods"], content["panels"]
    for what, tables, keys in (("methods", methods, _OF_METHODS), ("sets", content.get("sets", {}), _OF_SETS)):
        for name, options in _items(what, tables):
            _check_keys(f"key of {what}.{name}", options, keys)
            if not isinstance(alone := options.get("alone", False), bool):
                raise InputError(f"alone of {what}.{name} must be true or false; got {alone!r}.")
    for key in ("reference", "also"):
        if content.get(key) and content[key] not in methods:
            raise unknown(f"method for {key}", content[key], methods)
    if not isinstance(panels, list) or not panels:
        raise InputError(f"panels must be tables [[panels]]; got {panels!r}.")
    for panel in panels:
        _check_keys("key of a panel", panel, _OF_PANELS)
        for key in _OF_PANELS[1:6]:
            if not isinstance(panel.get(key, []), list) or (key == "data" and not panel.get(key)):
                raise InputError(f"{key} of a panel must be a list; got {panel.get(key)!r}.")
        first = panel.get("first_seed", 1)
        require(type(first) is int and first >= 1, "first_seed of a panel", "a whole number of at least 1", first)
        for run in panel.get("runs", []):
            if not isinstance(run, list) or len(run) != 2:
                raise InputError(f'runs of a panel must be pairs ["MODEL", "METHOD"]; got {run!r}.')
            if run[1] not in methods:
                raise unknown("method", run[1], methods)
    layout = content.get("layout", LAYOUTS[0])
    require(layout != "targets" or "target" in content, "target", "given where layout is 'targets'", "no target")
    checks = {
        "tuned": (TUNED_IN, _check_tuned),
        "target": (TARGET_IN, _check_target),
        "controls": (CONTROLS_IN, _check_controls),
    }
    for key, (layouts, check) in checks.items():
        if key in content:
            require(layout in layouts, "layout", f"one of {', '.join(layouts)} where {key} is given", layout)
            check(content[key], content)


def _check_tuned(tuned: Any, content: Mapping[str, Any]) -> None:
    """Raise `InputError` unless it names seeds from 1 on, and sets that the study has."""
    _check_keys("key of tuned", tuned, ("seeds", "sets"))
    for key, values in tuned.items():
        require(isinstance(values, list), f"tuned.{key}", "a list", values)
    for seed in tuned.get("seeds", []):
        require(type(seed) is int and seed >= 1, "tuned.seeds", "whole numbers of at least 1", seed)
    known = {data for panel in content["panels"] for data in panel["data"]}
    for data in tuned.get("sets", []):
        if data not in known:
            raise unknown("set in tuned.sets", data, known)


def _check_target(target: Any, content: Mapping[str, Any]) -> None:
    """Raise `InputError` unless it says how many points below a method's best, or what share of that, a target is."""
    _check_keys("key of target", target, ("reference", "below", "share"))
    if (method := target.get("reference", content["reference"])) not in content["methods"]:
        raise unknown("method for target.reference", method, content["methods"])
    given = [key for key in ("below", "share") if key in target]
    require(len(given) == 1, "target", "a table with either below or share", target)
    value, allowed = target[given[0]], "in (0, 1]" if given == ["share"] else ">= 0 and finite, in points"
    right = type(value) in (int, float) and math.isfinite(value)
    within = right and (0 < value <= 1 if given == ["share"] else value >= 0)
    require(within, f"target.{given[0]}", allowed, value)


def _check_controls(controls: Any, content: Mapping[str, Any]) -> None:
    """Raise `InputError` unless it is a list of methods that the study has."""
    require(isinstance(controls, list), "controls", "a list of methods", controls)
    for method in controls:
        if method not in content["methods"]:
            raise unknown("method in controls", method, content["methods"])


def _items(what: str, tables: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(tables, Mapping):
        raise InputError(f"{what} must be sections such as [{what}.NAME]; got {tables!r}.")
    yield from tables.items()


def _check_keys(what: str, table: Any, keys: Collection[str]) -> None:
    if not isinstance(table, Mapping):
        raise InputError(f"{what}: expected a table; got {table!r}.")
    for key in table:
        if key not in keys:
            raise unknown(what, key, keys)


def _folder() -> Any:
    return resources.files("fedgraft.reports") / "studies"


def _names() -> list[str]:
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))
