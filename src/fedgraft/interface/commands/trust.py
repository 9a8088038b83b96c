"""Trust the classes outside fedgraft that another user's run names: their code runs when it is used."""

from fedgraft.experiment.storage import outside_classes
from fedgraft.interface.commands.options import AsJson, Folder, print_json, say


def trust(folder: Folder, as_json: AsJson = False) -> None:
    """Trust the classes outside fedgraft that another user's run names: their code runs when it is used."""
    names = outside_classes.trust(folder)
    say(f"Trusted: {', '.join(names)}." if names else f"{folder} names no class outside fedgraft.")
    if as_json:
        print_json({"folder": str(folder), "trusted": list(names)})
