"""Attack a finished run on its own data: what a server, or who has the model, could have learnt."""

from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from fedgraft.interface.commands.options import SETTINGS, AllowChangedData, AsJson, DataRoot, Folder, print_json
from fedgraft.interface.loading import load

app = typer.Typer(**SETTINGS)


@app.command()
def attack(
    folder: Folder,
    kind: Annotated[
        str,
        typer.Option(metavar="LIST", help="Of labels, inversion, membership, canaries; commas between several."),
    ] = "labels,inversion,membership,canaries",
    canaries: Annotated[int, typer.Option(metavar="COUNT", help="How many wrongly labelled examples.")] = 600,
    data_root: DataRoot = None,
    allow_changed_data: AllowChangedData = False,
    as_json: AsJson = False,
) -> None:
    """Attack a finished run on its own data: what a server, or who has the model, could have learnt.

    labels: each client's largest class, by its first update. inversion: features of examples, by the same. membership:
    who was in training, by the model's losses. canaries: the run is trained again with wrongly labelled examples, and
    an epsilon follows that it does not keep.

    Example: fedgraft attack RUN --kind membership,canaries
    """
    kinds = [each.strip() for each in kind.split(",") if each.strip()]
    found = load("fedgraft.interface.attacked").attacked(folder, kinds, canaries, data_root, allow_changed_data)
    if as_json:
        print_json(found)
        return
    table = Table("attack", "what came of it", box=box.SIMPLE)
    for name, told in found.items():
        table.add_row(name, ", ".join(f"{key} {_shown(value)}" for key, value in told.items()))
    Console(highlight=False).print(table)


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
