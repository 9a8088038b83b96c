"""The command `fedgraft shard`: a recipe's data as a file for each client."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from fedgraft.errors import printable
from fedgraft.experiment import experiment as experiments
from fedgraft.experiment import sharding
from fedgraft.experiment.recipe import parse_override
from fedgraft.experiment.units import human_bytes


def shard(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A recipe's name ('fedgraft list recipes') or a TOML file.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="New or empty folder.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="SECTION.KEY=VALUE", help="Overrides, such as data.name=ciao data.root=DIR."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all randomness; equal seeds give equal bits.")] = None,
) -> None:
    """Write each client's data to a file of its own, to be handed to its site, and the recipe for all of them.

    The data are those of 'fedgraft run' with the same recipe, overrides and seed. Files hold no code: nothing runs
    when a site reads one. Example: fedgraft shard fedacs -o federation data.clients=3.
    """
    given = dict(parse_override(change) for change in changes or [])
    if seed is not None:
        given["seed"] = seed
    console = Console(stderr=True, highlight=False, soft_wrap=True)

    def written(name: str, path: Path, size: int) -> None:
        console.print(Text(printable(f"{name}: {human_bytes(size)} in {path}")))

    paths = sharding.shard(experiments.load(recipe, given), out, written)
    console.print(Text(printable(f"{len(paths)} clients and {sharding.RECIPE} in {out}")))
