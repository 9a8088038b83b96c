"""Shell completion, without torch: commands from their files, recipes from their folder."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from fedgraft.experiment.recipes.recipe_files import recipes

TAKE_RECIPES = ("run", "show", "shard")
"""Commands whose first argument is a recipe, or its file."""


def completed(names: Iterable[str], begun: str, about: Callable[[str], str]) -> list[CompletionItem]:
    """Return the names that begin like a word, each with what it is."""
    return [CompletionItem(name, help=about(name)) for name in names if name.startswith(begun)]


class RecipeFirst(click.Command):
    """Stands for a command while its first argument is completed: the command itself would be imported."""

    def __init__(self, name: str, command: Callable[[], Any]) -> None:
        super().__init__(name, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
        self._command = command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the recipes, and files, that begin like this; or the command's options."""
        if incomplete.startswith("-"):
            items: list[CompletionItem] = self._command().shell_complete(ctx, incomplete)
            return items
        known = {**recipes(), **{str(path): "a recipe file" for path in sorted(Path().glob("*.toml"))}}
        return completed(known, incomplete, known.__getitem__)
