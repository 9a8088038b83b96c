"""Write the trained model as a module of PyTorch that needs no fedgraft."""

from pathlib import Path
from typing import Annotated

import typer

from fedgraft.experiment.predicting.export import export as write
from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.interface.commands.options import AllowChangedData, DataRoot, Folder, say


def export(
    folder: Folder,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where model.py, model.safetensors and README.md go.")
    ],
    client: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose model, where each client has its own.")
    ] = None,
    allow_changed_data: AllowChangedData = False,
    data_root: DataRoot = None,
) -> None:
    """Write the trained model as a module of PyTorch that needs no fedgraft: source, weights, a README."""
    write(open_run(folder, data_root, allow_changed_data), out, client)
    say(f"Model in {out}; use it with: from model import load")
