"""Recipes as files: those that come with fedgraft, and a user's own. Nothing of what they name is imported."""

import tomllib
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from fedgraft.errors import InputError, unknown
from fedgraft.experiment.recipes.relative_paths import whole


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
