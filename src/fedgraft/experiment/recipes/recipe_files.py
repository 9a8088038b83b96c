"""Recipes as files: those that come with fedgraft, and a user's own. Nothing of what they name is imported."""

import os
import tomllib
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

import tomli_w

from fedgraft.errors import InputError, unknown

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


def recipes() -> dict[str, str]:
    """Every recipe that comes with fedgraft, and its description."""
    return {
        name.removesuffix(".toml"): _description(name)
        for name in sorted(each.name for each in _folder().iterdir())
        if ".toml" in name
    }


def read_file(recipe: str) -> tuple[str, dict[str, Any]]:
    """A recipe's name and what its own file holds, from the name of one of ours or the path of a TOML file."""
    if recipe.endswith(".toml"):
        path = Path(recipe)
        if not path.is_file():
            raise InputError(f"No recipe file {recipe}. Recipes that come with fedgraft: {', '.join(recipes())}.")
        raw, name = path.read_bytes(), path.stem
    elif recipe in recipes():
        raw, name = (_folder() / f"{recipe}.toml").read_bytes(), recipe
    else:
        raise unknown("recipe", recipe, recipes())
    try:
        content = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:  # of the bytes, or of the text
        raise InputError(f"{recipe} is not valid TOML: {error}.") from error
    return str(content.pop("recipe", name)), whole(content, Path(recipe).parent)


def _folder() -> Traversable:
    return resources.files("fedgraft.experiment") / "recipes"


@lru_cache(maxsize=256)
def _description(file: str) -> str:
    """What a recipe of ours says of itself, read once: every experiment that is built asks for all names."""
    return str(tomllib.loads((_folder() / file).read_text()).get("description", ""))
