"""Explain a recipe, a section of recipes, or a method: source, options, cost."""

from typing import Annotated

import typer

from fedgraft.interface import kept_pages
from fedgraft.interface.commands.options import SETTINGS, AsJson, print_json

app = typer.Typer(**SETTINGS)


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A recipe or its file, a method ('fedgraft list', or package.module:Class), or a section: training.",
        ),
    ],
    toml: Annotated[
        bool, typer.Option("--toml", help="The recipe alone, every option resolved, as a file that 'run' takes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Explain a recipe, a section of recipes, or a method: source, options, cost.

    Example: fedgraft show training; fedgraft show fedacs --toml > my.toml.
    """
    if toml:
        print(kept_pages.resolved(name), end="")
        return
    found = kept_pages.pages(name)
    texts = [page.pop("text") for page in found]
    if as_json:
        print_json({"name": name, "pages": found})
        return
    print("\n\n".join(texts))
