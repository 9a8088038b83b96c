"""Explain a recipe, a section of recipes, or a method: source, options, cost."""

import sys
from abc import ABCMeta
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Annotated, Any

import typer

from fedgraft.experiment.recipes.method_names import FAMILIES, entry_points
from fedgraft.interface.commands.options import AsJson, load, print_json

LIBRARIES = ("jaxtyping", "pandas", "pyarrow", "scipy", "torch")
"""What there are stand-ins for."""


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A recipe or its file, a method ('fedgraft list', or package.module:Class), or a section: training.",
        ),
    ],
    toml: Annotated[
        bool, typer.Option("--toml", help="The recipe alone, every option resolved, as a file that 'run' takes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Explain a recipe, a section of recipes, or a method: source, options, cost.

    Example: fedgraft show training; fedgraft show fedacs --toml > my.toml.
    """
    with nullcontext() if _takes_outside(name) else stand_ins():
        if toml:
            print(load("fedgraft.experiment.described").described(name), end="")
            return
        pages = load("fedgraft.interface.explained").pages(name)
    if as_json:
        print_json({"name": name, "pages": [page.as_json() for page in pages]})
        return
    print("\n\n".join(map(str, pages)))


def _takes_outside(name: str) -> bool:
    """Return whether a name's pages may take code that is not fedgraft's: of a user's file, or of another package."""
    return name.endswith(".toml") or ":" in name or any(map(entry_points, FAMILIES))


@contextmanager
def stand_ins() -> Iterator[None]:
    """Have what is imported in here find stand-ins for `LIBRARIES`; it is forgotten at the end, fedgraft's part too.

    A process that has torch already has nothing to gain, and gets none.
    """
    if "torch" in sys.modules:
        yield
        return
    before, finder = {*sys.modules}, _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in sys.modules.keys() - before:
            package, _, module = name.rpartition(".")
            if name.partition(".")[0] in ("fedgraft", *LIBRARIES):
                del sys.modules[name]
                if package in before:
                    vars(sys.modules[package]).pop(module, None)


class _StandIn(ABCMeta):
    """A class in place of a module, or of anything in one; what is in it, its items and its results are like it."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):  # what Python itself looks for
            raise AttributeError(name)
        return _stand_in(name)

    def __getitem__(cls, item: object) -> Any:
        return cls

    def __call__(cls, *arguments: object, **options: object) -> Any:
        return cls


@cache
def _stand_in(name: str) -> Any:
    return _StandIn(name, (), {})


class _Finder(MetaPathFinder, Loader):
    """Imports a stand-in for each module of `LIBRARIES`."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return how to import a module; None for one that is imported as it is."""
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in LIBRARIES else None

    def create_module(self, spec: ModuleSpec) -> Any:
        """Return the stand-in for a module."""
        return _stand_in(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leave it as it is."""
