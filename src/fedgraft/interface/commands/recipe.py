"""Recipes as files: rewrite one whose options have moved since it was written."""

import difflib
from pathlib import Path
from typing import Annotated

import typer

from fedgraft.errors import InputError
from fedgraft.experiment.recipes.upgrading import upgraded
from fedgraft.interface.commands.options import SETTINGS

app = typer.Typer(name="recipe", help="Rewrite a recipe, or a study, whose options have moved.", **SETTINGS)


@app.callback()
def recipe() -> None:
    """Rewrite a recipe, or a study, whose options have moved."""


@app.command()
def upgrade(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A recipe, or a study, as TOML.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Write here; default: FILE itself.")
    ] = None,
) -> None:
    """Rewrite options that have moved to other sections, and print what changed; comments and layout stay.

    Example: fedgraft recipe upgrade my.toml
    """
    try:
        before = file.read_bytes().decode()
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read: {error}.") from error
    after, moved = upgraded(before, str(file))
    if moved or out is not None:
        try:
            (out or file).write_bytes(after.encode())
        except OSError as error:
            raise InputError(f"{out or file} cannot be written: {error}.") from error
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), str(file), str(out or file), n=0, lineterm="")
    print("\n".join([*lines, *moved]) if moved else f"{file} has nothing that has moved.")
