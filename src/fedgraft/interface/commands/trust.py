"""Trust the classes outside fedgraft that another user's run names: their code runs when it is used."""

import typer

from fedgraft.experiment import outside_classes
from fedgraft.interface.commands.options import SETTINGS, Folder, say

app = typer.Typer(**SETTINGS)


@app.command()
def trust(folder: Folder) -> None:
    """Trust the classes outside fedgraft that another user's run names: their code runs when it is used."""
    names = outside_classes.trust(folder)
    say(f"Trusted: {', '.join(names)}." if names else f"{folder} names no class outside fedgraft.")
