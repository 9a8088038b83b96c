"""Explain a recipe (its resolved options) or a method (source, options, cost)."""

from typing import Annotated

import typer

from fedgraft.interface import catalogue
from fedgraft.interface.commands.options import SETTINGS

app = typer.Typer(**SETTINGS)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A recipe or a method, as 'fedgraft list' names it.")],
) -> None:
    """Explain a recipe (its resolved options) or a method (source, options, cost)."""
    print(catalogue.explain(name))
