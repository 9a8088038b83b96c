"""Say what there is: recipes, studies, data sets and methods."""

from typing import Annotated

import typer

from fedgraft.errors import printable, unknown
from fedgraft.experiment.recipes.method_names import FAMILIES, names, one_line
from fedgraft.experiment.recipes.recipe_files import recipes
from fedgraft.interface.commands.options import SETTINGS, AsJson, print_json
from fedgraft.reports.studies import study_files

KINDS = ("recipes", "studies", *FAMILIES)
"""What can be listed."""

app = typer.Typer(**{**SETTINGS, "no_args_is_help": False})


@app.command()
def list_(
    what: Annotated[
        str | None, typer.Argument(metavar="KIND", help="One of " + ", ".join(KINDS) + "; all by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what there is: recipes, studies, data sets and methods."""
    if what is not None and what not in KINDS:
        raise unknown("kind", what, KINDS)
    entries_by_kind = {kind: _entries(kind) for kind in KINDS if what in (None, kind)}
    if as_json:
        print_json(entries_by_kind)
        return
    for kind, entries in entries_by_kind.items():
        print(f"{kind}:")
        width = max(map(len, entries), default=0)
        for name, line in entries.items():
            print(printable(f"  {name:{width}}  {line}"))


def _entries(kind: str) -> dict[str, str]:
    if kind == "recipes":
        return recipes()
    if kind == "studies":
        return study_files.titles()
    return {name: one_line(kind, name) for name in names(kind)}
