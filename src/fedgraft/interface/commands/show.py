"""Explain a recipe, a section of recipes, or a method: source, options, cost."""

from contextlib import nullcontext
from typing import Annotated

import typer

from fedgraft.experiment.recipes.method_names import FAMILIES, entry_points
from fedgraft.interface.commands.options import SETTINGS, AsJson, load, print_json
from fedgraft.interface.stand_ins import stand_ins

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
    with nullcontext() if _takes_outside(name) else stand_ins():
        if toml:
            print(load("fedgraft.experiment.described").described(name), end="")
            return
        pages = load("fedgraft.interface.explained").pages(name)
    if as_json:
        print_json({"name": name, "pages": [page.as_json() for page in pages]})
        return
    print("\n\n".join(map(str, pages)))


def _takes_outside(name: str) -> bool:
    """Return whether a name's pages may take code that is not fedgraft's: of a user's file, or of another package."""
    return name.endswith(".toml") or ":" in name or any(map(entry_points, FAMILIES))
