"""The scripts of benchmarks/, which are no package: importable for a while."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "benchmarks"


@contextmanager
def importable() -> Iterator[None]:
    """Have them on the path; those that were imported are forgotten afterwards."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield
    finally:
        sys.path.remove(str(FOLDER))
        for path in FOLDER.rglob("*.py"):
            name = ".".join(path.relative_to(FOLDER).with_suffix("").parts).removesuffix(".__init__")
            sys.modules.pop(name, None)


def load(name: str) -> Any:
    """Return one of them by its name."""
    return import_module(name)
