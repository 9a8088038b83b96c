"""The names of all methods, and the first line of each one's documentation; no method is imported.

A method's name is its file's; presets stand in a family's package, and other packages publish entry points. Lines are
read from source: to import every method takes seconds.
"""

import ast
import importlib
import importlib.metadata
import inspect
import os
import pkgutil
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

PACKAGES = {
    **{
        family: f"fedgraft.methods.{family}"
        for family in (
            "selectors",
            "samplers",
            "codecs",
            "sharing",
            "aggregation",
            "server_optimizers",
            "tasks",
            "models",
            "inputs",
            "losses",
            "exchanges",
            "answers",
            "data",
            "baselines",
        )
    },
    "runtimes": "fedgraft.runtimes",
}
"""{family: the package with a file for each of its names}."""
FAMILIES = tuple(PACKAGES)
_METHOD = re.compile(r"\n    (?:def |@)")
"""Where a class's first method begins."""


def names(family: str) -> list[str]:
    """Every name of a family, sorted."""
    return sorted({*files(family), *presets(family), *(point.name for point in entry_points(family))})


def presets(family: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """{name: (the name of its class, the options that the name stands for)} of a family."""
    known = getattr(importlib.import_module(PACKAGES[family]), "PRESETS", {})
    taken = {point.name for point in entry_points(family)}
    return {name: preset for name, preset in known.items() if name not in taken}


def one_line(family: str, name: str) -> str:
    """Return the first line of the documentation of a name's class, or the class and options of a preset."""
    if name in (known := presets(family)):
        of, options = known[name]
        return f"{of} with {', '.join(f'{key} = {value!r}' for key, value in options.items())}"
    outside = next((point.value for point in entry_points(family) if point.name == name), "")
    module, _, cls = outside.partition(":") if outside else (f"{PACKAGES[family]}.{name}", "", name.replace("_", ""))
    return _documented(module, cls) or (_imported_line(module, cls) if outside else name)


def entry_points(family: str) -> list[importlib.metadata.EntryPoint]:
    """What other packages publish in a family."""
    return _scanned(importlib.metadata.entry_points, tuple(sys.path)).get(f"fedgraft.{family}", [])


@lru_cache(maxsize=64)
def _scanned(scan: Callable[[], Any], path: tuple[str, ...]) -> dict[str, list[importlib.metadata.EntryPoint]]:
    """What is published, by group: a scan takes hundredths of a second, and a build asks dozens of times."""
    points = scan()
    groups = {group: [*points.select(group=group)] for group in map("fedgraft.{}".format, FAMILIES)}
    groups["fedgraft.baselines"] += points.select(group="fedgraft.yardsticks")  # as packages of before name them
    return groups


def files(family: str) -> tuple[str, ...]:
    """Return the names that are modules of a family's package."""
    folders = tuple(importlib.import_module(PACKAGES[family]).__path__)
    return _listed(folders, tuple(os.stat(folder).st_mtime_ns if os.path.exists(folder) else 0 for folder in folders))


@lru_cache(maxsize=64)
def _listed(folders: tuple[str, ...], changed: tuple[int, ...]) -> tuple[str, ...]:
    """The modules of folders, listed anew where these have changed: that takes longer than to build a method."""
    modules = pkgutil.iter_modules(folders)
    return tuple(module.name for module in modules if not (module.ispkg or module.name.startswith("_")))


def _documented(module: str, cls: str) -> str:
    """The first line of a class's documentation in a module's source, in whatever case its name is; "" for none.

    Of the source the class is parsed up to its first method: to parse all of every file takes tenths of a second.
    """
    try:
        loader = getattr(find_spec(module), "loader", None)
        source = loader.get_source(module) or "" if loader is not None else ""
        begin = re.search(rf"^class {re.escape(cls)}\b", source, re.MULTILINE | re.IGNORECASE)
        tree = ast.parse(_METHOD.split(source[begin.start() :])[0] if begin else "")
    except (ImportError, AttributeError, ValueError, SyntaxError):  # of a package that is not ours
        return ""
    text = next((ast.get_docstring(node) for node in tree.body if isinstance(node, ast.ClassDef)), None)
    return text.splitlines()[0] if text else ""


def _imported_line(module: str, cls: str) -> str:
    """The same of a class whose module has it from elsewhere; what cannot be imported is said in the line's place."""
    try:
        value = getattr(importlib.import_module(module), cls)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        return f"cannot be imported ({error})"
    return (inspect.getdoc(value) or cls).splitlines()[0]
