"""Options of a class, as its fields and docstring say them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.options import Option, about, options
from fedgraft.experiment.recipes.sections import METHODS, QUESTIONS, SETTINGS, TopLevel


@dataclass(frozen=True)
class Base:
    """A base.

    Args:
        count: how many, >= 1.
        kept: of the base.
    """

    count: int
    kept: bool = True


@dataclass(frozen=True)
class Derived(Base):
    """A class: what it is.

    Source: a book.

    Args:
        ways: "one" or
            "two", in two lines.
        count: how many of the derived, >= 2.

    Needs: nothing.
    """

    ways: Literal["one", "two"] = "one"
    root: Path | str | None = None
    parts: tuple[float, ...] = (0.5, 1e-8)
    others: dict[str, Any] = field(default_factory=dict)
    made: int = field(default=0, init=False)


def test_an_option_has_a_type_a_default_and_a_text_its_own_or_inherited():
    assert options(Derived, {"others": {}}) == (
        Option("count", "integer", "", "how many of the derived, >= 2."),
        Option("kept", "boolean", "true", "of the base."),
        Option("ways", '"one" | "two"', '"one"', '"one" or "two", in two lines.'),
        Option("root", "path | string", "unset", ""),
        Option("parts", "array of number", "[0.5, 1e-08]", ""),
    )


def test_the_rest_of_the_documentation_is_about_the_class():
    assert about(Derived) == "A class: what it is.\n\nSource: a book.\n\nNeeds: nothing."


@pytest.mark.parametrize("family", discovery.FAMILIES)
def test_every_option_of_every_method_has_a_text(family):
    for name in {*discovery.names(family)} - {*discovery.presets(family)}:
        found = options(discovery.find(family, name))
        assert not [option.name for option in found if not (option.text and option.type)], name


def test_every_section_is_explained():
    assert list(QUESTIONS) == list(METHODS)
    for cls in (TopLevel, *SETTINGS.values()):
        assert all(option.text and option.default for option in options(cls))
