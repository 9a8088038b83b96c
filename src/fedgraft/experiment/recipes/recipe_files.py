"""Recipes as files: those that come with fedgraft, and a user's own. Nothing of what they name is imported."""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from fedgraft.errors import InputError, unknown
from fedgraft.experiment.recipes.here import whole


def recipes() -> dict[str, str]:
    """Every recipe that comes with fedgraft, and its description."""
    folder = resources.files("fedgraft.experiment") / "recipes"
    texts = {file.name.removesuffix(".toml"): file.read_text() for file in folder.iterdir() if ".toml" in file.name}
    return {name: str(tomllib.loads(text).get("description", "")) for name, text in sorted(texts.items())}


def read_file(recipe: str) -> tuple[str, dict[str, Any]]:
    """A recipe's name and what its own file holds, from the name of one of ours or the path of a TOML file."""
    if recipe.endswith(".toml"):
        path = Path(recipe)
        if not path.is_file():
            raise InputError(f"No recipe file {recipe}. Recipes that come with fedgraft: {', '.join(recipes())}.")
        raw, name = path.read_bytes(), path.stem
    elif recipe in recipes():
        raw, name = (resources.files("fedgraft.experiment") / "recipes" / f"{recipe}.toml").read_bytes(), recipe
    else:
        raise unknown("recipe", recipe, recipes())
    try:
        content = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:  # of the bytes, or of the text
        raise InputError(f"{recipe} is not valid TOML: {error}.") from error
    return str(content.pop("recipe", name)), whole(content, Path(recipe).parent)
