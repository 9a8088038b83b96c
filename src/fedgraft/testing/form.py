"""The form of a method: a frozen dataclass of its contract whose documentation tells all."""

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

from fedgraft.contracts.option_groups import groups_of, settable
from fedgraft.testing.laws import expect


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
