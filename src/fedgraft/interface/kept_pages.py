"""Pages of `fedgraft show` that were made before: to make one imports torch and the methods, which takes seconds.

They are kept in the user's cache until a file of fedgraft changes. Not kept are pages of a user's own files and
classes, any page while another package publishes methods, and a page that names the folder one stands in.
"""

import hashlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import fedgraft
from fedgraft.experiment.recipes.method_names import FAMILIES, entry_points
from fedgraft.experiment.storage.cache import folder, read, write
from fedgraft.interface.loading import load


def pages(name: str) -> list[dict[str, Any]]:
    """Return every page of a name, each as JSON has it, with the page as it is printed as "text".

    Raises `InputError`, with the nearest right name, for a name of nothing.
    """

    def made() -> list[dict[str, Any]]:
        pages = load("fedgraft.interface.explained").pages(name)
        return [{**page.as_json(), "text": str(page)} for page in pages]

    found: list[dict[str, Any]] = _kept("pages", name, made)
    return found


def resolved(recipe: str) -> str:
    """Return a recipe, by name or file, with every option resolved, as TOML."""

    def made() -> str:
        return str(load("fedgraft.experiment.described").described(recipe))

    return str(_kept("toml", recipe, made))


def _kept(what: str, name: str, make: Callable[[], Any]) -> Any:
    """Return what is made of a name, from the cache where that may be."""
    if name.endswith(".toml") or ":" in name or any(map(entry_points, FAMILIES)):
        return make()
    code = _code()
    path = folder("pages") / f"{code}-{hashlib.blake2b(f'{what} {name}'.encode(), digest_size=16).hexdigest()}.json"
    if (entry := read(path)) is not None and "made" in entry:
        return entry["made"]
    made = make()
    if os.getcwd() not in str(made):
        _drop_others(code)
        write(path, {"made": made})
    return made


@cache
def _code() -> str:
    """Return a fingerprint of fedgraft's files, by their sizes and when they were written."""
    root, state = Path(fedgraft.__file__).parent, hashlib.blake2b(sys.version.encode(), digest_size=8)
    for place, folders, files in os.walk(root):
        folders[:] = sorted(each for each in folders if each != "__pycache__")
        for file in sorted(files):
            about = os.stat(os.path.join(place, file))
            state.update(f"{place}/{file} {about.st_size} {about.st_mtime_ns};".encode())
    return state.hexdigest()


def _drop_others(code: str) -> None:
    """Remove the pages of fedgraft as it was before."""
    with suppress(OSError):
        for path in folder("pages").glob("*.json"):
            if not path.name.startswith(code):
                path.unlink(missing_ok=True)
