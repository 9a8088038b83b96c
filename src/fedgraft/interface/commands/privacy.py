"""Say what a recipe claims of differential privacy before anything runs: the noise, and what is not covered."""

from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from fedgraft.interface.commands.options import SETTINGS, AsJson, Changes, Recipe, print_json
from fedgraft.interface.loading import load

app = typer.Typer(**SETTINGS)

Numbers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Without data: parameters of the model, or statistics of a sum.")
]
Units = Annotated[int | None, typer.Option(min=1, metavar="N", help="Without data: training examples of all clients.")]
Clients = Annotated[int | None, typer.Option(min=1, metavar="N", help="Without data: clients. Default: data.clients.")]


@app.command()
def privacy(
    recipe: Recipe,
    changes: Changes = None,
    numbers: Numbers = None,
    units: Units = None,
    clients: Clients = None,
    as_json: AsJson = False,
) -> None:
    """Say what a recipe claims of differential privacy before anything runs: the claim, the noise, what is not covered.

    Its data are read, to know how many numbers a model has and how many units there are; without data, say these.

    Example: fedgraft privacy graft_node_private data.root=DIR privacy.epsilon=2, or
    fedgraft privacy graft_node_private --numbers 1503 --units 11830 --clients 100
    """
    interface = load("fedgraft.interface.claimed")
    claimed = interface.claimed(recipe, changes or [], interface.Sizes(numbers or 0, units or 0, clients or 0))
    if as_json:
        print_json(claimed)
        return
    console = Console(highlight=False)
    console.print(_table(claimed["claim"] | dict.fromkeys(("parts", "not_covered", "adversaries", "exact_scores"), "")))
    console.print(_against(claimed["claim"]["adversaries"]))
    for part in claimed["claim"]["parts"]:
        console.print(_table(part))
    console.print(_table(claimed["costs"]))
    if claimed["without_data"]:
        print("Computed without data, of the sizes that were given.")
    print("Not covered:")
    for line in claimed["claim"]["not_covered"]:
        print(f"- {line}")
    for line in claimed["warnings"]:
        print(f"Warning: {line}")


def _against(adversaries: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE)
    for heading in ("against", "epsilon at most", "clients in its smallest sum", "missing, or working together"):
        table.add_column(heading, overflow="fold")
    for row in adversaries:
        reached = "not bounded" if row["epsilon"] is None else f"{row['epsilon']:.4g}"
        table.add_row(row["adversary"], reached, str(row["clients"]), str(row["together"]))
    return table


def _table(values: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE, show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in values.items():
        if value != "":
            table.add_row(name.replace("_", " "), f"{value:.6g}" if isinstance(value, float) else str(value))
    return table
