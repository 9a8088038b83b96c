"""Use the trained model, from a run's folder and the clients' own data."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from fedgraft.errors import InputError
from fedgraft.experiment.predicting.predict import predict as predict_from
from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.experiment.storage import disk
from fedgraft.interface.commands import options
from fedgraft.interface.named_tables import TablesCommand, named_tables
from fedgraft.tables.table_files import write_csv

app = typer.Typer(**options.SETTINGS)


@app.command(cls=TablesCommand)
def predict(
    folder: options.Folder,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Answers: CSV (which see below) or Parquet.")
    ],
    table: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help="A table, CSV or Parquet; --NAME FILE is the same. Once for each."),
    ] = None,
    client: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who answers; default: the column 'client', or the task decides.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("-k", min=1, help="Answers to each question, such as items to a user. Default: 10.")
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="A column 'probability_CLASS' for each class, beside the likeliest.")
    ] = False,
    threshold: Annotated[
        float | None,
        typer.Option(help="Probability from which on the rarer of two classes is answered. Default: the run's."),
    ] = None,
    allow_changed_data: options.AllowChangedData = False,
    data_root: options.DataRoot = None,
    as_json: options.AsJson = False,
) -> None:
    """Use the trained model, from a run's folder and the clients' own data.

    Questions are tables that the run's task knows, given as --NAME FILE; each row of the first is answered. A list,
    such as --users 7,12, may stand for that table where the task knows such lists. Where the run's data are not, one
    client's own data stand in for them: tables that the run's data set knows.
    In CSV a text that begins like a formula (=, +, -, @) gets an apostrophe before it, or a spreadsheet would compute
    it; Parquet has every id as it is.
    """
    write = _writer(out)
    run = open_run(folder, data_root, allow_changed_data)
    asked = named_tables(table or [])
    answers = predict_from(run, asked, client, count=count, probabilities=probabilities, threshold=threshold)
    with disk.written(f"--out {out}"):
        out.parent.mkdir(parents=True, exist_ok=True)
        write(answers)
    options.say(f"{len(answers)} answers in {out}")
    if as_json:
        options.print_json({"file": str(out), "answers": len(answers)})


def _writer(path: Path) -> Callable[[Any], None]:
    """Return a function that writes a table to the path, by its suffix."""
    if path.suffix.lower() == ".csv":
        return lambda table: write_csv(table, path)
    if path.suffix.lower() == ".parquet":
        return lambda table: table.to_parquet(path, index=False)
    raise InputError(f"--out {path} must end in .csv or .parquet.")
