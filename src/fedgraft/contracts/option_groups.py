"""Options that several methods share: one dataclass, a field of each of them. Recipes set its options one by one.

    scaled: Scaling = Scaling()

is a group of the method that has this field. `[data] scaling = "rows"` sets one of its options, and so does
`Nodes(..., scaling="rows")`; `Nodes.scaled.scaling` is its value.
"""

from abc import ABCMeta
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from typing import TYPE_CHECKING, Any


class OptionGroup:
    """Base of frozen dataclasses of options, each with a default, that a method holds as one field."""


@dataclass(frozen=True)
class Settable:
    """An option that a recipe can set.

    Args:
        group: the field of the method that holds it with others; "" = it is a field itself.
        default: its value where nothing is said, or `MISSING` where it must be given.
    """

    group: str
    default: Any


def settable(cls: type[Any]) -> Mapping[str, Settable]:
    """Return {option: where it is held} of a dataclass, in the order of its fields, those of groups in their place."""
    found: dict[str, Settable] = {}
    for field in fields(cls):
        if isinstance(group := field.default, OptionGroup):
            found |= {each.name: Settable(field.name, getattr(group, each.name)) for each in fields(group)}  # type: ignore[arg-type]
        elif field.init:
            found[field.name] = Settable("", _default(field))
    return found


def _default(field: "Field[Any]") -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def groups_of(cls: type[Any]) -> Mapping[str, Any]:
    """Return {field: the group that it holds by default} of a dataclass."""
    return {field.name: field.default for field in fields(cls) if isinstance(field.default, OptionGroup)}


class _Grouping(ABCMeta):
    """Class of classes whose constructor takes the options of groups by name."""

    def __call__(cls, *given: Any, **options: Any) -> Any:
        held = settable(cls)
        own = {name: value for name, value in options.items() if name not in held or not held[name].group}
        for name, usual in groups_of(cls).items():
            if part := {key: options[key] for key in {*options} - {*own} if held[key].group == name}:
                own[name] = replace(own.get(name, usual), **part)
        return super().__call__(*given, **own)


class Grouped(metaclass=_Grouping):
    """Base of dataclasses with groups of options: each can be given, and read, by its name."""

    if not TYPE_CHECKING:  # code of ours names the group; what handles options by name need not

        def __getattr__(self, name: str) -> Any:
            """Return the value of an option of a group."""
            held = settable(type(self)).get(name)
            if held is None or not held.group:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            return getattr(getattr(self, held.group), name)
