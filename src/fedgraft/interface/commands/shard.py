"""Write each client's data to a file of its own, to be handed to its site, and the recipe for all of them."""

from pathlib import Path
from typing import Annotated

import typer

from fedgraft.experiment import job as jobs
from fedgraft.experiment.recipes.recipe import parse_override
from fedgraft.experiment.recipes.units import human_bytes
from fedgraft.experiment.storage import client_files
from fedgraft.interface.commands.options import AsJson, Recipe, Seed, print_json, say


def shard(
    recipe: Recipe,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="New or empty folder.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="SECTION.KEY=VALUE", help="Overrides, such as data.name=ciao data.root=DIR."),
    ] = None,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Write each client's data to a file of its own, to be handed to its site, and the recipe for all of them.

    The data are those of 'fedgraft run' with the same recipe, overrides and seed. Files hold no code: nothing runs
    when a site reads one. Example: fedgraft shard fedacs -o federation data.clients=3.
    """
    overrides = dict(parse_override(change) for change in changes or [])
    if seed is not None:
        overrides["seed"] = seed

    def written(name: str, path: Path, size: int) -> None:
        say(f"{name}: {human_bytes(size)} in {path}")

    paths = client_files.shard(jobs.load(recipe, overrides), out, written)
    say(f"{len(paths)} clients and {client_files.RECIPE} in {out}")
    if as_json:
        print_json(
            {"folder": str(out), "recipe": client_files.RECIPE, "clients": len(paths), "files": [*map(str, paths)]}
        )
