"""Say what a recipe claims of differential privacy before anything runs: the noise, and what is not covered."""

from typing import Annotated, Any

import typer

from fedgraft.interface.commands.options import AsJson, Changes, Recipe, load, print_json, print_table

Numbers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Without data: parameters of the model, or statistics of a sum.")
]
Units = Annotated[int | None, typer.Option(min=1, metavar="N", help="Without data: training examples of all clients.")]
Clients = Annotated[int | None, typer.Option(min=1, metavar="N", help="Without data: clients. Default: data.clients.")]


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
    claim = claimed["claim"]
    _print(claim | dict.fromkeys(("parts", "not_covered", "adversaries", "exact_scores"), ""))
    rows = [
        (each["adversary"], _reached(each["epsilon"]), each["clients"], each["together"])
        for each in claim["adversaries"]
    ]
    print_table(("against", "epsilon at most", "clients in its smallest sum", "missing, or working together"), rows)
    for part in (*claim["parts"], claimed["costs"]):
        _print(part)
    if claimed["without_data"]:
        print("Computed without data, of the sizes that were given.")
    print("Not covered:")
    for line in claim["not_covered"]:
        print(f"- {line}")
    for line in claimed["warnings"]:
        print(f"Warning: {line}")


def _reached(epsilon: float | None) -> str:
    return "not bounded" if epsilon is None else f"{epsilon:.4g}"


def _print(values: dict[str, Any]) -> None:
    shown = {name.replace("_", " "): each for name, each in values.items() if each != ""}
    print_table(
        ("", ""), [(name, f"{each:.6g}" if isinstance(each, float) else str(each)) for name, each in shown.items()]
    )
