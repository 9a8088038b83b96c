"""The form of a method: a frozen dataclass of its contract whose documentation tells all."""

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

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
    texts = "\n".join(inspect.getdoc(each) or "" for each in cls.__mro__)  # options that several have are in one place
    unexplained = [option.name for option in dataclasses.fields(cls) if f"{option.name}:" not in texts]
    expect(not unexplained, "the docstring must explain every option", f"nothing on {unexplained}")
