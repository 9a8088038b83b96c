"""Every selector keeps the laws of `fedgraft.testing`; new files of the family are found by themselves."""

import importlib
import inspect
import pkgutil

import pytest

import fedgraft.methods.selectors
from fedgraft.contracts import Selector
from helpers.laws import held
from laws import selectors

SLOW = [f"{name}-runs_sixty_rounds" for name in ("acfl", "favor", "fedcor", "fedmarl", "harmony", "rafhgl")]
SLOW += [
    f"{name}-{law}"
    for name in ("favor", "fedmarl", "rafhgl")
    for law in ("terms_are_of_every_client", "learns_from_late_answers")
]
NAMES = sorted(module.name for module in pkgutil.iter_modules(fedgraft.methods.selectors.__path__))


def found(name):
    """The public selectors of a file."""
    module = importlib.import_module(f"fedgraft.methods.selectors.{name}")
    return [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__ and issubclass(value, Selector)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_holds_one_public_selector_of_its_name(name):
    (cls,) = found(name)
    assert cls.__name__.lower() == name.replace("_", "")


@pytest.mark.parametrize("law", held({name: selectors.laws(cls) for name in NAMES for cls in found(name)}, SLOW))
def test_keeps_the_law(law):
    law()
