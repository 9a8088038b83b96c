"""A law: a promise that every class of a family keeps, checked by running the class.

A law is a small function that takes a case, such as an instance, and raises `AssertionError` by `expect`. A family's
`Laws` say which of them apply to a class; `check` holds a class to all that do.
"""

import dataclasses
import inspect
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedgraft import wire
from fedgraft.contracts.option_groups import groups_of, settable
from fedgraft.contracts.parts import has
from fedgraft.errors import InputError


def check_form(cls: type[Any], contract: type[Any], words: Sequence[str] = ()) -> None:
    """Raise `AssertionError` unless a class has the form of a method of a contract.

    Its documentation must contain all `words`, beside the name of every option.
    """
    expect(issubclass(cls, contract), f"a method of this family must be a fedgraft.contracts.{contract.__name__}", cls)
    expect(dataclasses.is_dataclass(cls), "a method must be a dataclass of its hyper-parameters", cls)
    expect(cls.__dataclass_params__.frozen, "the dataclass must be frozen", "@dataclass without frozen=True")
    text = inspect.getdoc(cls) or ""
    missing = [word for word in words if word not in text]
    expect(not missing, f"the docstring must have {', '.join(words)}", f"none of {missing}")
    # Options that several have are in one place.
    places = [*cls.__mro__, *(each for group in groups_of(cls).values() for each in type(group).__mro__)]
    texts = "\n".join(inspect.getdoc(each) or "" for each in places)
    unexplained = [option for option in settable(cls) if f"{option}:" not in texts]
    expect(not unexplained, "the docstring must explain every option", f"nothing on {unexplained}")


def equal(one: Any, two: Any) -> bool:
    """Return whether two trees are of equal types, in equal order, to the last bit; nan equals nan."""
    if isinstance(one, dict):
        return isinstance(two, dict) and list(one) == list(two) and all(equal(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return isinstance(two, list) and len(one) == len(two) and all(map(equal, one, two))
    if isinstance(one, np.ndarray):
        return isinstance(two, np.ndarray) and _same_array(one, two)
    return type(one) is type(two) and (one == two or one != one)


def same(one: Any, two: Any) -> bool:
    """Return whether two trees hold the same to the last bit, whatever the order of keys and the types of numbers."""
    if isinstance(one, dict):
        return isinstance(two, dict) and one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple):
        return isinstance(two, list | tuple) and len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, np.ndarray):
        return isinstance(two, np.ndarray) and _same_array(one, two)
    return bool(one == two or (one != one and two != two))


def _same_array(one: NDArray[Any], two: NDArray[Any]) -> bool:
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    # Equal bytes are the usual case, and found ten times faster.
    return one.tobytes() == two.tobytes() or np.array_equal(one, two, equal_nan=True)


def travelled(tree: Any) -> Any:
    """Return a tree as it comes back from a checkpoint."""
    return wire.unpack(wire.pack(tree))


Case = TypeVar("Case")
Holds = Callable[[Case], None]

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = _SHORT.maxdict = 12


@dataclass(frozen=True)
class Law(Generic[Case]):
    """A law that is held against one class, `who`: call it. Its text is its name, so it can be a test's id.

    `holds` takes what `case` makes, and raises `AssertionError` where the law is broken.
    """

    name: str
    who: str
    holds: Holds[Case] = field(repr=False)
    case: Callable[[], Case] = field(repr=False)

    def __call__(self) -> None:
        """Raise `AssertionError` with the class, the law and what was seen, if the law is broken."""
        case = self.case()
        try:
            self.holds(case)
        except Exception as error:
            reason = str(error) if isinstance(error, AssertionError) else ""
            reason = reason or f"it raised {type(error).__name__}: {error}"
            broken = AssertionError(f"{self.who} breaks the law {self.name!r}: {reason}")
            for note in getattr(error, "__notes__", ()):  # the example that a property-based law found
                broken.add_note(note)
            raise broken from error

    def __str__(self) -> str:
        return self.name


class Laws(Generic[Case]):
    """The laws of a family, in the order in which they are written."""

    def __init__(self) -> None:
        self._all: list[tuple[Holds[Case], Callable[[type[Any]], bool]]] = []

    def every(self, law: Holds[Case]) -> Holds[Case]:
        """Add a law for every class of the family; for use as a decorator."""
        self._all.append((law, lambda cls: True))
        return law

    def having(self, *abilities: type[Any]) -> Callable[[Holds[Case]], Holds[Case]]:
        """Add a law for classes with one of these abilities, by themselves or by a part; for use as a decorator."""
        return self.where(lambda cls: any(has(cls, each) for each in abilities))

    def where(self, applies: Callable[[type[Any]], bool]) -> Callable[[Holds[Case]], Holds[Case]]:
        """Add a law for some classes; for use as a decorator."""

        def add(law: Holds[Case]) -> Holds[Case]:
            self._all.append((law, applies))
            return law

        return add

    def held(self, cls: type[Any], make: Callable[[], Case], who: str = "") -> list[Law[Case]]:
        """Return the laws that apply to a class, to be held against a case; `who` is told in place of its name.

        `make` makes the case, once, when it is first needed.
        """
        require_class(cls)
        case = cache(make)
        return [Law(law.__name__, who or cls.__name__, law, case) for law, applies in self._all if applies(cls)]


def require_class(cls: object) -> None:
    """Raise `InputError` for an instance: a checker makes its own, more than once."""
    if not isinstance(cls, type):
        name = type(cls).__name__
        raise InputError(f"A checker takes a class, and its options by name, as ({name}, option=value); got {cls!r}.")


def check(laws: Sequence[Law[Any]]) -> None:
    """Run laws; raise one `AssertionError` that names all that are broken."""
    broken = []
    for law in laws:
        law.case()  # what the caller gave wrongly is the caller's error, and breaks no law
        try:
            law()
        except AssertionError as error:
            broken.append(error)
    if len(broken) == 1:
        raise broken[0]
    if broken:
        raise AssertionError("\n".join(map(str, broken))) from broken[0]


def expect(condition: object, sentence: str, *seen: object) -> None:
    """Raise `AssertionError` unless `condition`, with the sentence and what was seen."""
    if not condition:
        got = f"; got {', '.join(map(_SHORT.repr, seen))}" if seen else ""
        raise AssertionError(f"{sentence}{got}.")


@contextmanager
def expect_error(kind: type[Exception], sentence: str, match: str = "") -> Iterator[None]:
    """Raise `AssertionError` unless what is within raises such an error whose text has `match` in it."""
    try:
        yield
    except kind as error:
        expect(re.search(match, str(error)), f"{sentence}, with a text like {match!r}", str(error))
        return
    raise AssertionError(f"{sentence}; nothing was raised.")


def for_all(holds: Callable[..., None], drawn: Mapping[str, Any], examples: int = 25) -> None:
    """Run a property for so many examples: {argument: one of `strategies()`}; the simplest that breaks it is told."""
    hypothesis = _hypothesis()
    hypothesis.settings(max_examples=examples, deadline=None)(hypothesis.given(**drawn)(holds))()


def strategies() -> Any:
    """Return `hypothesis.strategies`."""
    return _hypothesis().strategies


def _hypothesis() -> Any:
    try:
        import hypothesis
        import hypothesis.strategies
    except ImportError as error:
        raise ImportError("Property-based laws need hypothesis: pip install 'fedgraft[testing]'") from error
    return hypothesis
