"""Say what there is: recipes, studies, data sets and methods."""

from typing import Annotated

import typer

from fedgraft.errors import printable
from fedgraft.interface import catalogue
from fedgraft.interface.commands.options import SETTINGS, AsJson, print_json

app = typer.Typer(**{**SETTINGS, "no_args_is_help": False})


@app.command()
def list_(
    what: Annotated[
        str | None, typer.Argument(metavar="KIND", help="One of " + ", ".join(catalogue.KINDS) + "; all by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what there is: recipes, studies, data sets and methods."""
    entries_by_kind = catalogue.everything(what)
    if as_json:
        print_json(entries_by_kind)
        return
    for kind, entries in entries_by_kind.items():
        print(f"{kind}:")
        width = max(map(len, entries), default=0)
        for name, line in entries.items():
            print(printable(f"  {name:{width}}  {line}"))
