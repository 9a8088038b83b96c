"""Ranges of options: a field says its own in its type, and all are checked in one place.

    clients: NonNegativeInt = 0
    rate: PositiveFloat = 0.1
    target: Annotated[float, Interval(ge=-100, le=100)] = 0.0
    batch_size: Annotated[int, Ge(0), "0 = whole blocks"] = 0
    hidden: tuple[PositiveInt, ...] = (32,)
    by: Literal["size", "similarity"] = "size"
    set: Annotated[str, OneOf(SETS)] = "cora"

`Ge`, `Gt`, `Le`, `Lt`, `Interval` and `MinLen` are those of annotated_types, which pydantic reads, too. A text beside
them is a note on what is allowed.
"""

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Interval, Le, Lt, MinLen

from fedgraft.contracts.option_groups import groups_of
from fedgraft.errors import require, require_one_of

PositiveInt: TypeAlias = Annotated[int, Ge(1)]
NonNegativeInt: TypeAlias = Annotated[int, Ge(0)]
PositiveFloat: TypeAlias = Annotated[float, Gt(0)]
NonNegativeFloat: TypeAlias = Annotated[float, Ge(0)]
Proportion: TypeAlias = Annotated[float, Interval(ge=0, le=1)]
PositiveProportion: TypeAlias = Annotated[float, Interval(gt=0, le=1)]
InnerFraction: TypeAlias = Annotated[float, Interval(gt=0, lt=1)]
ProperFraction: TypeAlias = Annotated[float, Interval(ge=0, lt=1)]

_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


class OneOf:
    """Mark a field as one of several words that the code has in a constant; words written out are a `Literal`."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)


class Checked:
    """Base of dataclasses of options: each lies in the range that its type says. Methods are; others may be.

    A class with rules between options has a `__post_init__` of its own, which calls this one first.
    """

    def __post_init__(self) -> None:
        check_ranges(self, type(self).__name__)


def check_ranges(owner: Any, name: str) -> None:
    """Raise `InputError` unless all fields of a dataclass lie in their ranges; `name` is its own in errors."""
    for field, (hint, words, allowed) in _ranges(owner.__class__).items():
        value = getattr(owner, field)
        if words:
            require_one_of(f"{name}.{field}", value, words)
        else:
            _check(f"{name}.{field}", hint, allowed, value)


@cache
def _ranges(cls: type[Any]) -> Mapping[str, tuple[Any, tuple[str, ...], str]]:
    """Return {field: (its type, its words, what it allows, in words)} of those with a range, also of groups."""
    types = {field.name: field.type for field in fields(cls)}
    if any(isinstance(hint, str) for hint in types.values()):
        hints = get_type_hints(cls, include_extras=True)
        types = {field: hints[field] for field in types}
    ranges = {field: (hint, _words(hint), _allowed(hint)) for field, hint in types.items()}
    own = {field: (hint, words, allowed) for field, (hint, words, allowed) in ranges.items() if words or allowed}
    return {
        **own,
        **{field: each for group in groups_of(cls).values() for field, each in _ranges(group.__class__).items()},
    }


def _check(parameter: str, hint: Any, allowed: str, value: Any) -> None:
    if isinstance(value, float):
        require(not math.isinf(value), parameter, "finite", value)
        require(_parted(hint)[0] is not int or math.isnan(value), parameter, "a whole number", value)
    try:
        fits = _fits(hint, value)
    except TypeError:  # of what is no number, or not several of them
        fits = False
    require(fits, parameter, allowed, value)


def _words(hint: Any) -> tuple[str, ...]:
    inner, marks = _parted(hint)
    listed = [mark.words for mark in marks if isinstance(mark, OneOf)]
    literal = get_args(inner) if get_origin(inner) is Literal else ()
    return listed[0] if listed else literal if all(isinstance(each, str) for each in literal) else ()


def _fits(hint: Any, value: Any) -> bool:
    inner, marks = _parted(hint)
    if get_origin(inner) in (Union, UnionType):
        others = [each for each in get_args(inner) if each is not NoneType]
        return len(others) < len(get_args(inner)) if value is None else any(_fits(each, value) for each in others)
    if get_origin(inner) is tuple:
        filled = len(value) > 0 or not any(isinstance(mark, MinLen) for mark in marks)
        return filled and all(_fits(get_args(inner)[0], each) for each in value)
    bounds = _bounds(marks)
    sound = not bounds or (not isinstance(value, bool) and abs(value) < math.inf)
    return sound and all(bool(getattr(operator, sign)(value, bound)) for sign, bound in bounds.items())


def _allowed(hint: Any) -> str:
    """Return what a type allows, in words; "" for all that there is."""
    inner, marks = _parted(hint)
    if get_origin(inner) in (Union, UnionType):
        text = " or ".join(filter(None, map(_allowed, get_args(inner))))
        return f"{text}, or left out" if text and NoneType in get_args(inner) else text
    if get_origin(inner) is tuple:
        each = _allowed(get_args(inner)[0])
        several = "at least one number" if any(isinstance(mark, MinLen) for mark in marks) else "numbers"
        return f"{several}, each {each}" if each else ""
    bounds, note = _bounds(marks), "".join(f" ({mark})" for mark in marks if isinstance(mark, str))
    if len(bounds) < 2:
        return "".join(f"{_SIGNS[sign]} {bound}{note}" for sign, bound in bounds.items())
    low, high = bounds.values()
    return f"in {'[' if 'ge' in bounds else '('}{low}, {high}{']' if 'le' in bounds else ')'}{note}"


def _bounds(marks: Iterable[Any]) -> dict[str, Any]:
    """Return {"ge", "gt", "le" or "lt": number}, the lower one first."""
    found = {type(mark).__name__.lower(): mark for mark in marks if isinstance(mark, Ge | Gt | Le | Lt)}
    return {sign: getattr(found[sign], sign) for sign in ("gt", "ge", "lt", "le") if sign in found}


def _parted(hint: Any) -> tuple[Any, list[Any]]:
    """Return a type without its annotations, and these, intervals as their bounds."""
    inner, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    return inner, [each for mark in marks for each in (mark if isinstance(mark, Interval) else (mark,))]
