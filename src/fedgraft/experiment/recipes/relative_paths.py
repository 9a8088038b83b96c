"""Paths from the file that names them: `{here}` at the head of a text in [data] is the folder of that file.

A run stores the paths of its data like this wherever run and data lie below one folder, so that this folder can move.
It stores, too, where it was then: if only the run has moved, its data are found where they were.
"""

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import tomli_w

HERE: Final = "{here}"
THERE: Final = "here"
"""Key of the folder that a stored run was in when its file was written."""


def from_here(text: str, folder: Path) -> str:
    """Return a resolved recipe as a run in this folder stores it."""
    content, base = tomllib.loads(text), folder.resolve()

    def named(value: str) -> str:
        if value != os.path.normpath(value) or os.path.commonpath([base, value]) == os.sep:
            return value
        return f"{HERE}/{os.path.relpath(value, base)}"

    data = mapped(content.get("data"), lambda value: named(value) if os.path.isabs(value) else value)
    return text if data == content.get("data") else tomli_w.dumps({THERE: str(base), **content, "data": data})


def whole_text(text: str, folder: Path) -> str:
    """Return what `from_here` was given, for a run that is in this folder now; a damaged text as it is."""
    if HERE not in text:
        return text
    try:
        return tomli_w.dumps(whole(tomllib.loads(text), folder))
    except (tomllib.TOMLDecodeError, RecursionError):
        return text  # whoever reads it says what is wrong


def whole(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a recipe with whole paths: those not below its folder are where its file was when written."""
    result, base = dict(content), folder.resolve()
    then = result.pop(THERE, None)

    def located(value: str) -> str:
        if value.partition("/")[0] != HERE:
            return value
        now, before = (os.path.normpath(f"{each}{value.removeprefix(HERE)}") for each in (base, then or base))
        return before if os.path.exists(before) and not os.path.exists(now) else now

    return {**result, "data": mapped(result["data"], located)} if "data" in result else result


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value of a recipe with every text in it changed."""
    if isinstance(value, Mapping):
        return {key: mapped(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [mapped(each, change) for each in value]
    return change(value) if isinstance(value, str) else value
