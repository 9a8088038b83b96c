"""What can be set: every option of a class, with its type, default and meaning; and findings of what does not suit."""

import dataclasses
import inspect
import json
import re
import types
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from fedgraft.contracts import Codec
from fedgraft.contracts.answers import Answers
from fedgraft.contracts.encoder import Encoder
from fedgraft.contracts.exchange import Exchange
from fedgraft.contracts.inputs import Inputs
from fedgraft.contracts.loss import Objective
from fedgraft.contracts.option_groups import groups_of, settable
from fedgraft.errors import InputError

_ARGS = "Args:"
_ARGUMENT = re.compile(r" {4}(\w+): (.*)")
_WORDS = {str: "string", int: "integer", float: "number", bool: "boolean", Path: "path", Any: "object"}
"""Types by the words that TOML has for them, where it has any."""
STAGES = (Encoder, Inputs, Objective, Exchange, Answers)
"""Contracts of what a recipe sets in a section of its own."""
_HINTS: WeakKeyDictionary[type[Any], Mapping[str, Any]] = WeakKeyDictionary()
"""Those of classes that were asked for: to find them takes longer than to check what is given for them."""


@dataclass(frozen=True)
class Finding:
    """One thing that does not suit.

    Args:
        why: what it is.
        instead: what to take instead, in words.
        changes: {"section.key": value} by which it suits; None where that is for the user to say.
        wished: {"section.key": value} that go well with these, where the user has set nothing else.
        frame: the sentence, with {why} and {instead} in it.
    """

    why: str
    instead: str
    changes: Mapping[str, Any] | None = None
    wished: Mapping[str, Any] = field(default_factory=dict)
    frame: str = "{why}: {instead}"

    def __str__(self) -> str:
        return self.frame.replace("{why}", self.why).replace("{instead}", self.instead)


Also: TypeAlias = Callable[[Mapping[str, Any]], Sequence[Finding]]
"""What does not suit of things beside a recipe, such as the run that it begins with, by the recipe's content."""


class UnsuitedError(InputError):
    """A recipe cannot have the sums that are asked for; the text says all that must change.

    Args:
        text: of the error.
        findings: what does not suit.
        more: a sentence that follows, "" for none.
    """

    def __init__(self, text: str, findings: Sequence[Finding] = (), more: str = "") -> None:
        super().__init__(text)
        self.findings, self.more = findings, more

    @classmethod
    def of(cls, findings: Sequence[Finding], more: str = "") -> "UnsuitedError":
        """Return the error for at least one finding; `more` is a sentence that follows, "" for none."""
        said = [*dict.fromkeys(map(str, findings))]
        head = f"{len(said)} things must change: " if len(said) > 1 else ""
        return cls(f"{head}{'; '.join(said)}.{more and f' {more}'}", findings, more)


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a class.

    Args:
        name: as a recipe has it.
        type: of its values, as TOML calls it, such as "integer" or "array of string".
        default: as TOML writes it; "unset" where nothing stands for it, "" where it must be given.
        text: what it means.
    """

    name: str
    type: str
    default: str
    text: str


def options(cls: type[Any], fixed: Mapping[str, Any] | None = None) -> tuple[Option, ...]:
    """Return the options of a dataclass.

    Args:
        cls: a method, or what a section without a name sets.
        fixed: {option: value that stands already}, which are left out.

    What a recipe sets in a section of its own, such as a task's encoder in [model], is left out, too.
    """
    texts: dict[str, str] = {}
    groups = [base for group in groups_of(cls).values() for base in reversed(type(group).__mro__)]
    for each in (*groups, *reversed(cls.__mro__)):
        texts |= _parts(each.__doc__ or "")[1]
    hints = hints_of(cls)
    return tuple(
        Option(name, _type(hints[name]), _default(each.default), texts.get(name, ""))
        for name, each in settable(cls).items()
        if name not in (fixed or {}) and not _is_stage(hints[name])
    )


def hints_of(cls: type[Any]) -> Mapping[str, Any]:
    """Return the type of each of a class's options."""
    if cls not in _HINTS:
        of_groups = [get_type_hints(type(group)) for group in groups_of(cls).values()]
        _HINTS[cls] = types.MappingProxyType(dict(ChainMap(get_type_hints(cls), *of_groups)))
    return _HINTS[cls]


def about(cls: type[Any]) -> str:
    """Return a class's documentation without its options."""
    return _parts(inspect.getdoc(cls) or cls.__name__)[0]


def _parts(documentation: str) -> tuple[str, dict[str, str]]:
    """Return the documentation but for the arguments, and {argument: its text, as one line}."""
    lines = inspect.cleandoc(documentation).splitlines()
    if _ARGS not in lines:
        return "\n".join(lines), {}
    start = lines.index(_ARGS) + 1
    end = next((at for at in range(start, len(lines)) if lines[at][:1].strip()), len(lines))
    arguments: dict[str, list[str]] = {}
    for line in filter(str.strip, lines[start:end]):
        if match := _ARGUMENT.fullmatch(line):
            arguments[match[1]] = [match[2]]
        elif arguments:
            [*arguments.values()][-1].append(line.strip())
    rest = [*lines[: start - 1], *lines[end:]]
    return "\n".join(rest).strip(), {name: " ".join(text) for name, text in arguments.items()}


def _type(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _WORDS:
        return _WORDS[hint]
    if origin is Literal:
        return " | ".join(map(json.dumps, inner))
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(_type(each) for each in inner if each is not type(None)))
    if origin in (tuple, list):
        return f"array of {_type(inner[0])}"
    cls = origin or hint
    return "table" if issubclass(cls, Mapping) else cls.__name__.lower() if issubclass(cls, Codec) else cls.__name__


def _default(value: Any) -> str:
    if value is None:
        return "unset"
    return "" if value is dataclasses.MISSING else json.dumps(value, ensure_ascii=False)


def _is_stage(hint: Any) -> bool:
    return all(isinstance(each, type) and issubclass(each, STAGES) for each in get_args(hint) or (hint,))
