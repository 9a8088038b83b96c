"""Use the trained model, from a run's folder and the clients' own data."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from fedgraft.errors import InputError
from fedgraft.experiment.predicting.predict import predict as predict_from
from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.experiment.storage import disk
from fedgraft.interface import explained
from fedgraft.interface.commands import options
from fedgraft.tables.table_files import Given, is_address, read_pipe, write_csv

OPTION = "--table"


class TablesCommand(TyperCommand):
    """A command with the option `--table NAME=FILE`, where an option that it does not have names a table."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments, options that name tables spelled out."""
        known = {name: not getattr(each, "is_flag", False) for each in self.get_params(ctx) for name in each.opts}
        return super().parse_args(ctx, spelled_out(args, known))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """List the tables of every task that there is."""
        super().format_epilog(ctx, formatter)
        with formatter.section("Tables by task, and one client's own tables (columns: 'fedgraft show TASK')"):
            formatter.write_dl(list(explained.tables().items()))


def spelled_out(arguments: Sequence[str], known: Mapping[str, bool]) -> list[str]:
    """Return arguments with `--table NAME=FILE` in place of `--NAME FILE` and `--NAME=FILE`.

    `known` is {option of the command: whether it takes a value}. Raises `InputError` where the file is missing.
    """
    spelled: list[str] = []
    rest = list(arguments)
    while rest:
        name, equals, value = (argument := rest.pop(0)).partition("=")
        if argument == "--":
            return [*spelled, argument, *rest]
        if name in known or not argument.startswith("--"):
            spelled.append(argument)
            if known.get(name) and not equals:
                spelled += rest[:1]
                del rest[:1]
            continue
        if not equals and rest and rest[0] not in known and not rest[0].startswith("--"):
            value = rest.pop(0)
        if not value:
            raise InputError(f"{name} needs a value, the .csv or .parquet file of a table.")
        spelled += [OPTION, f"{name.removeprefix('--')}={value}"]
    return spelled


def named_tables(texts: Iterable[str]) -> dict[str, Given | None]:
    """Return {name: file} of texts `NAME=FILE`; of a pipe, such as /dev/stdin, the table that comes out of it."""
    tables: dict[str, Given | None] = {}
    for text in texts:
        name, _, file = text.partition("=")
        if not name or not file:
            raise InputError(f"{OPTION} must be NAME=FILE; got {text!r}.")
        if name in tables:
            raise InputError(f"--{name} is given twice, {str(tables[name])!r} and {file!r}; give one file.")
        path = Path(file)
        if is_address(file):
            tables[name] = file
            continue
        tables[name] = read_pipe(path) if path.is_fifo() or path.is_char_device() else path
    return tables


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
