"""Find a method by its file name and build it from a recipe's section; nothing is registered anywhere.

`find("selectors", "oort")` is the one public class of `fedgraft/methods/selectors/oort.py`. A class outside fedgraft is
named "package.module:Class", or published by its package as an entry point in the group `fedgraft.<family>`.

A family's package may hold `PRESETS`, names for a class with some of its options: {"chem": ("tu", {"sets": "chem"})}.
"""

import dataclasses
import importlib
import inspect
import json
import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter, ValidationError

from fedgraft.contracts import (
    Aggregation,
    Codec,
    RuntimeOptions,
    Sampler,
    Selector,
    ServerOptimizer,
    Sharing,
    Task,
)
from fedgraft.contracts.answers import Answers
from fedgraft.contracts.baseline import Baseline
from fedgraft.contracts.data import Data
from fedgraft.contracts.encoder import Encoder
from fedgraft.contracts.exchange import Exchange
from fedgraft.contracts.inputs import Inputs
from fedgraft.contracts.loss import Objective
from fedgraft.contracts.option_groups import settable
from fedgraft.errors import InputError, require_one_of, unknown
from fedgraft.experiment.recipes.method_names import FAMILIES, PACKAGES, entry_points, files, names, one_line, presets
from fedgraft.experiment.recipes.options import hints_of
from fedgraft.experiment.recipes.options import options as options_with_text

LOG = logging.getLogger("fedgraft.data")
__all__ = ["FAMILIES", "names", "one_line", "presets"]  # of all that there is; what is built of them is here
CONTRACTS: dict[str, type[Any]] = {
    "selectors": Selector,
    "samplers": Sampler,
    "codecs": Codec,
    "sharing": Sharing,
    "aggregation": Aggregation,
    "server_optimizers": ServerOptimizer,
    "tasks": Task,
    "models": Encoder,
    "inputs": Inputs,
    "losses": Objective,
    "exchanges": Exchange,
    "answers": Answers,
    "data": Data,
    "baselines": Baseline,
    "runtimes": RuntimeOptions,
}
"""Every family, and what its classes are."""
SINGULAR = {"inputs": "inputs", "losses": "loss", "answers": "answers"}
"""Families of which one is not called as they are, without the "s"."""
SHOWN = 3
"""Most names that an error lists of those that have an option."""
_CONFIG = ConfigDict(arbitrary_types_allowed=True)


def as_in_recipes(text: str, classes: Mapping[str, type[Any]]) -> str:
    """Return a text that names options of classes with the sections of a recipe that the classes are of.

    Args:
        text: such as "Table.low must be below Table.high = 1.0; got 5.0."
        classes: {section: class}; of one class in several sections the first counts.
    """
    for section, cls in classes.items():
        options = "|".join(settable(cls))
        text = re.sub(rf"\b{cls.__name__}\.({options})\b", rf"{section}.\1", text) if options else text
    return text


@contextmanager
def named_as_in_recipes(classes: Mapping[str, type[Any]]) -> Iterator[None]:
    """Raise an `InputError` from in here, and log notes on data, with options as recipes name them."""

    def rename(record: logging.LogRecord) -> bool:
        record.msg, record.args = as_in_recipes(record.getMessage(), classes), ()
        return True

    LOG.addFilter(rename)
    try:
        yield
    except InputError as error:
        text = as_in_recipes(str(error), classes)
        if text == str(error):
            raise
        raise InputError(text) from error
    finally:
        LOG.removeFilter(rename)


def find(family: str, name: str) -> type[Any]:
    """The class behind a name. Raises `InputError` with the nearest right name."""
    if ":" in name:
        return _outside(family, name)
    for point in entry_points(family):
        if point.name == name:
            return _outside(family, point.value)
    if name in (known := presets(family)):
        return find(family, known[name][0])
    if name not in files(family):
        raise unknown(SINGULAR.get(family, family.removesuffix("s")), name, names(family))
    module = importlib.import_module(f"{PACKAGES[family]}.{name}")
    wanted = name.replace("_", "")
    cls: type[Any] = next(cls for key, cls in vars(module).items() if key.lower() == wanted and _fits(family, cls))
    return cls


def build(family: str, section: str, options: Mapping[str, Any]) -> Any:
    """An instance from a recipe's section: its "name" finds the class, every other key is one of its fields.

    Raises `InputError` for unknown keys (with the nearest right one), for values of a wrong type, and for an option
    that contradicts the preset it is given to.
    """
    cls, name = class_of(family, section, options), str(options["name"])
    of, fixed = presets(family).get(name, (name, {}))
    own = {key: value for key, value in options.items() if key != "name"}
    for key, value in fixed.items():
        if own.get(key, value) != value:
            raise InputError(
                f"{section}.{key} must be {value!r} with {section}.name = {name!r}; got {own[key]!r}. "
                f"{section}.name = {of!r} takes any."
            )
    check_keys(family, cls, section, name, own)
    _check_tables(family, cls, name, own)
    return construct(cls, section, {**fixed, **own})


def check_keys(family: str, cls: type[Any], section: str, name: str, keys: Iterable[str]) -> None:
    """Raise `InputError` for an option that the class of this name has not, and others of its family have."""
    for key in sorted({*keys} - {*settable(cls)}):
        if others := _with(family, key):
            listed = " or ".join(f"{section}.name = {other!r}" for other in others[:SHOWN])
            raise InputError(f"No {section} option named {key!r} with {section}.name = {name!r}; {listed} has it.")


def _check_tables(family: str, cls: type[Any], name: str, own: Mapping[str, Any]) -> None:
    """Raise `InputError` for a file where a data set has a number of this name, and others a table."""
    for key, value in own.items() if family == "data" else ():
        if isinstance(value, str) and hints_of(cls).get(key) in (int, float):
            tables = [each for each in _with(family, key) if Path in get_args(hints_of(find(family, each))[key])]
            tables = [each for each in tables if find(family, each).task == cls.task] or tables
            if tables:
                listed = " or ".join(f"data.name={each}" for each in tables[:SHOWN])
                raise InputError(
                    f"data.{key} of data set {name!r} is a number; got {value!r}. A table of your own needs {listed}."
                )


def _with(family: str, option: str) -> list[str]:
    """The names of a family's classes that have an option."""
    own = sorted({*names(family)} - {*presets(family)})
    return [name for name in own if option in settable(find(family, name))]


def section_of(family: str, instance: Any) -> dict[str, Any] | None:
    """Return the section of a recipe that builds such an instance; None for what is no method of the family.

    Raises `InputError` for a class that no other process could find by its name, and for methods that hold others.
    """
    cls = type(instance)
    if not _fits(family, cls):
        return None
    name, options = name_of(family, cls), options_of(instance)
    holds = [option for option, value in options.items() if dataclasses.is_dataclass(value)]
    if holds or any(map(dataclasses.is_dataclass, options.get("codecs", ()))):
        raise InputError(f"{cls.__name__} holds other methods; give it as a dict or a list, as a recipe does.")
    return {"name": name, **options}


def name_of(family: str, cls: type[Any]) -> str:
    """Return the name by which a class is found. Raises `InputError` as `outside_name`."""
    package, _, module = cls.__module__.rpartition(".")
    return module if package == PACKAGES[family] else outside_name(cls)


def outside_name(cls: type[Any]) -> str:
    """Return "package.module:Class". Raises `InputError` for a class that no other process could find by it."""
    if "<locals>" in cls.__qualname__:
        raise InputError(f"{cls.__qualname__} is defined in a function; define it in a module or a notebook's cell.")
    return f"{cls.__module__}:{cls.__qualname__}"


def class_of(family: str, section: str, options: Mapping[str, Any]) -> type[Any]:
    """The class that a recipe's section names; its other keys are not looked at."""
    if "name" not in options:
        raise InputError(f"[{section}] needs a name. Known: {', '.join(names(family))}.")
    return find(family, str(options["name"]))


def lacking(family: str, section: str, options: Mapping[str, Any]) -> list[str]:
    """The options that must be given for what a section names, and are not."""
    cls = class_of(family, section, options)
    _, fixed = presets(family).get(str(options["name"]), ("", {}))
    return [key for key in _without_default(cls) if key not in options and key not in fixed]


def family_of(path: str) -> str:
    """The family of a class outside fedgraft, "package.module:Class". Raises `InputError` for a class of none."""
    cls = _imported("class", path)
    for family in FAMILIES:
        if _fits(family, cls):
            return family
    contracts = ", ".join(contract.__name__ for contract in CONTRACTS.values())
    raise InputError(f"{path!r} must be a dataclass that is one of fedgraft.contracts: {contracts}.")


def construct(cls: type[Any], section: str, options: Mapping[str, Any], named: bool = True) -> Any:
    """An instance of the dataclass `cls`, its fields checked and converted by their annotated types.

    `named` says whether the section names a method, so that "name" is among its keys.
    """
    fields = [*settable(cls)]
    for key in options:
        if key not in fields:
            raise unknown(f"{section} option", key, [*fields, "name"] if named else fields)
    if lacks := sorted(getattr(cls, "__abstractmethods__", ())):
        raise InputError(f"{section}: class {cls.__qualname__} lacks what its contract asks for: {', '.join(lacks)}.")
    hints = hints_of(cls)
    values = {key: _typed(f"{section}.{key}", hints[key], value) for key, value in options.items()}
    missing = [key for key in _without_default(cls) if key not in values]
    if missing:
        text = next(each.text for each in options_with_text(cls) if each.name == missing[0])
        raise InputError(f"{section}.{missing[0]} must be given: {text or _one_line(cls)}")
    with named_as_in_recipes({section: cls}):
        return cls(**values)


def options_of(instance: Any) -> dict[str, Any]:
    """A built method's fields as a recipe's section would hold them (without its name)."""
    return {name: getattr(instance, name) for name in settable(type(instance))}


def _without_default(cls: type[Any]) -> list[str]:
    return [name for name, each in settable(cls).items() if each.default is dataclasses.MISSING]


def _typed(parameter: str, hint: Any, value: Any) -> Any:
    wanted = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
    wrong = InputError(f"{parameter} must be of type {wanted}; got {value!r}.")
    if get_origin(hint) is Literal and all(isinstance(each, str) for each in get_args(hint)):
        require_one_of(parameter, value, get_args(hint))
    try:
        typed = _adapter(hint, str(hint)).validate_python(_listed(hint, value))
    except ValidationError as error:
        raise wrong from error
    if isinstance(value, bool) and not isinstance(typed, bool):  # pydantic takes true for 1
        raise wrong
    if isinstance(typed, float) and not math.isfinite(typed):
        raise InputError(f"{parameter} must be finite; got {typed}.")
    return typed


@cache
def _adapter(hint: Any, written: str) -> TypeAdapter[Any]:
    """Return what checks values of a type; `written` tells unions of another order apart, which are equal."""
    return TypeAdapter(hint, config=_CONFIG if _takes_config(hint) else None)


def _listed(hint: Any, value: Any) -> Any:
    """Return the parts of a text such as "a,b" where a list, and no text, is wanted; any other value as it is."""
    choices = (hint,) if get_origin(hint) is tuple else get_args(hint)
    hints = [each for each in choices if get_origin(each) is tuple]
    if not (hints and isinstance(value, str)) or str in choices:
        return value
    parts = [part.strip().strip("\"'") for part in value.strip("[]()").split(",") if part.strip()]
    return parts if get_args(hints[0])[0] is str else [_number(part) for part in parts]


def _number(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _takes_config(hint: Any) -> bool:
    return not (isinstance(hint, type) and dataclasses.is_dataclass(hint))


def _outside(family: str, path: str) -> type[Any]:
    cls: type[Any] = _imported(family, path)
    if not _fits(family, cls):
        contract = CONTRACTS[family].__name__
        raise InputError(f"{family}: {path!r} must be a dataclass that is a fedgraft.contracts.{contract}.")
    return cls


def _imported(what: str, path: str) -> Any:
    module_name, _, class_name = path.partition(":")
    try:
        return getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InputError(f"{what}: {path!r} cannot be imported ({error}); expected 'package.module:Class'.") from error


def _fits(family: str, cls: object) -> bool:
    return inspect.isclass(cls) and issubclass(cls, CONTRACTS[family]) and dataclasses.is_dataclass(cls)


def _one_line(cls: type[Any]) -> str:
    return (inspect.getdoc(cls) or cls.__name__).splitlines()[0]
