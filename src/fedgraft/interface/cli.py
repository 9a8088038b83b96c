"""The command line: run, resume, predict, serve, trust, compare, report, study, shard, list, show."""

import json
import logging
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from signal import SIGINT
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from fedgraft.contracts.table_files import write_csv
from fedgraft.errors import (
    AllClientsFailedError,
    BudgetError,
    FedgraftError,
    InputError,
    MachineError,
    memory_shortage,
    printable,
)
from fedgraft.experiment import experiment as experiments
from fedgraft.experiment import outside_classes, portable
from fedgraft.experiment.outside_classes import stored_experiment
from fedgraft.experiment.predict import predict as predict_from
from fedgraft.experiment.recipe import parse_override
from fedgraft.experiment.run_folder import Store
from fedgraft.experiment.runner import Interrupted, execute
from fedgraft.experiment.runner import resume as resume_run
from fedgraft.interface import advise, catalogue, federated, federation
from fedgraft.interface.closing import closing_lines
from fedgraft.interface.json_tables import MAX_REQUEST, MAX_ROWS
from fedgraft.interface.named_tables import TablesCommand, named_tables
from fedgraft.interface.progress import Progress
from fedgraft.interface.shard import shard
from fedgraft.reports.comparison import compare as compare_runs
from fedgraft.reports.comparison import render as render_comparison
from fedgraft.reports.html_report import write_report
from fedgraft.reports.stored_runs import COSTS
from fedgraft.reports.studies import cost_figures
from fedgraft.reports.studies import study as studies
from fedgraft.reports.studies.page import tables, write_page
from fedgraft.runtimes.workers import signals

FAILED, BAD_INPUT, BUDGET_TOO_SMALL, BY_SIGNAL = 1, 2, 3, 128
"""Exit codes; 0 is success. One that a signal ended has `BY_SIGNAL` and its number: 130 for Ctrl-C, 143 for SIGTERM."""

app = typer.Typer(
    name="fedgraft",
    help="""Train one graph neural network over graphs that may not leave their owners, and count every byte.

    Start with:  fedgraft run fedacs  (generated shops, no download), then  fedgraft report RUN -o report.html
    """,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(federation.app)
messages = Console(stderr=True, highlight=False, soft_wrap=True)

app.command()(federation.node)

Changes = Annotated[
    list[str] | None,
    typer.Argument(metavar="SECTION.KEY=VALUE", help="Overrides, such as selector.name=oort budget.bytes=2MB."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, all else on stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Folder = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")]
Folders = Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of finished runs.")]
Target = Annotated[
    str | None,
    typer.Option(
        metavar="METRIC=VALUE", help="Score for bytes to target, such as rmse=0.95. Default: best, plus 0.2 %."
    ),
]


@app.command()
def run(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A recipe's name ('fedgraft list recipes') or a TOML file.")
    ],
    changes: Changes = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all randomness; equal seeds give equal bits.")] = None,
    out: Annotated[Path | None, typer.Option(help="New or empty folder. Default: runs/RECIPE-DATE-TIME.")] = None,
    on: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Run at the nodes of a federation, see 'fedgraft federation'.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train. Example: fedgraft run fedacs data.name=ciao data.root=DIR budget.bytes=2MB --seed 1 --out runs/a."""
    given = dict(parse_override(change) for change in changes or [])
    if seed is not None:
        given["seed"] = seed
    if on is not None:
        folder = out or Path("runs") / f"{on.resolve().name}-{datetime.now():%Y%m%d-%H%M%S}"
        with _resumable(folder):
            summary = federated.run_on(on, recipe, given, folder, quiet)
        _show_summary(summary, folder, as_json)
        return
    experiment = experiments.load(recipe, given)
    portable.begin_again(experiment.runtime)
    folder = out or Path("runs") / f"{experiment.recipe}-{datetime.now():%Y%m%d-%H%M%S}"
    with _resumable(folder), Progress.of(experiment, quiet) as progress:
        summary = execute(experiment, folder, progress)
    _show_summary(summary, folder, as_json)


@app.command()
def resume(
    folder: Folder,
    before: Annotated[
        bool,
        typer.Option("--before", help="From the checkpoint before the last one, such as when a model was spoiled."),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Take a run up where it stopped; it ends with the same bits as if it never had."""
    experiment = stored_experiment(Store.open(folder))
    if federated.is_federated(folder):
        with _resumable(folder):
            _show_summary(federated.resume_on(folder, before, quiet), folder, as_json)
        return
    portable.begin_again(experiment.runtime)
    with _resumable(folder), Progress.of(experiment, quiet) as progress:
        summary = resume_run(folder, progress, before)
    _show_summary(summary, folder, as_json)


@app.command(cls=TablesCommand)
def predict(
    folder: Folder,
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
) -> None:
    """Use the trained model, from a run's folder and the clients' own data.

    Questions are tables that the run's task knows, given as --NAME FILE; each row of the first is answered. A list,
    such as --users 7,12, may stand for that table where the task knows such lists. Where the run's data are not, one
    client's own data stand in for them: tables that the run's data set knows.
    In CSV a text that begins like a formula (=, +, -, @) gets an apostrophe before it, or a spreadsheet would compute
    it; Parquet has every id as it is.
    """
    write = _writer(out)
    answers = predict_from(folder, named_tables(table or []), client, count=count)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write(answers)
    except OSError as error:
        raise InputError(f"--out {out} cannot be written: {error.strerror or error}.") from error
    _say(f"{len(answers)} answers in {out}")


@app.command()
def serve(
    folder: Folder,
    host: Annotated[str, typer.Option(help="Address to listen at; there is no authentication.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8080,
    max_request: Annotated[str, typer.Option(metavar="SIZE", help="Largest body of a request.")] = MAX_REQUEST,
    max_rows: Annotated[
        int, typer.Option(min=1, help="Most rows of a table, and most answers, of a request.")
    ] = MAX_ROWS,
) -> None:
    """Answer predictions over HTTP, as JSON, until Ctrl-C; needs the extra 'fedgraft[serve]'.

    Ask with POST /predict; GET /schema says what there is to ask, GET /health which run answers.
    """
    from fedgraft.interface.serve import serve as answer  # what the extra installs is imported by no other command

    number = answer(folder, host, port, max_request, max_rows, _say)
    _say(f"{signals.said(number)}.")
    raise Interrupted("interrupted", number)


@app.command()
def trust(folder: Folder) -> None:
    """Trust the classes outside fedgraft that another user's run names: their code runs when it is used."""
    names = outside_classes.trust(folder)
    _say(f"Trusted: {', '.join(names)}." if names else f"{folder} names no class outside fedgraft.")


@app.command()
def compare(
    folders: Folders,
    target: Target = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="|".join(COSTS), help="Cost to the target that orders runs. Default: as given."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put finished runs side by side: scores, bytes, what each paid until it reached a target score."""
    table = compare_runs(folders, target, against)
    if as_json:
        _print_json({"runs": table})
    else:
        Console().print(render_comparison(table, against=against))


@app.command()
def report(
    folders: Folders,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The HTML file; it opens offline.")],
    target: Target = None,
    title: Annotated[str, typer.Option(help="The page's heading.")] = "fedgraft report",
    representations: Annotated[
        bool, typer.Option(help="Show what each model tells apart (t-SNE); loads the runs' data again.")
    ] = False,
    against: Annotated[
        str, typer.Option(metavar="|".join(COSTS), help="What the first figure shows scores against.")
    ] = "rounds",
) -> None:
    """Write one HTML file: curves, bytes, who was chosen when, who was late, scores per client, yardsticks, a table."""
    write_report(folders, out, target, title, representations, against)
    _say(f"Report in {out}")


@app.command()
def study(
    name: Annotated[str, typer.Argument(metavar="STUDY", help="A study, as 'fedgraft list studies' names it.")],
    data: Annotated[Path, typer.Option(metavar="DIR", help="Folder that holds the data sets' folders.")],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Finished cells. Default: studies/NAME.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Paired seeds 1..SEEDS.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time, one thread each.")] = 2,
    match: Annotated[
        str, typer.Option(metavar="NAMES", help="Run only cells of such names, e.g. 'chem-gin-*' (quote it).")
    ] = "*",
    on: Annotated[
        str, typer.Option(metavar="ray[:ADDRESS]", help="A Ray cluster that runs the cells, as its CPUs allow.")
    ] = "",
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Markdown page whose tables to write.")] = None,
    pictures: Annotated[
        bool, typer.Option(help="Draw accuracy against costs, a picture a setting, and show them on the page.")
    ] = False,
    results: Annotated[Path | None, typer.Option(metavar="FILE", help="One JSON file with all results.")] = None,
    as_json: AsJson = False,
) -> None:
    """Reproduce a paper's tables: methods x seeds on equal footing. Started again, it runs only what is missing."""
    found = studies.load(name)
    folder = out or Path("studies") / name
    if pictures:
        cost_figures.check(found)
    try:
        studies.run(found, data, folder, seeds, jobs, _say, match, on)
    finally:
        done = studies.results(found, folder, seeds)
        if page is not None and done:
            write_page(found, done, seeds, page, folder / "pictures")
        if results is not None and done:
            lines = [json.dumps({"cell": cell.key, **result}) for cell, result in done.items()]
            results.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    if pictures:
        for line in cost_figures.draw_all(found, done, seeds, folder / "pictures"):
            _say(line)
        if page is not None and done:
            write_page(found, done, seeds, page, folder / "pictures")
    if as_json:
        _print_json({"study": name, "cells": {cell.key: result for cell, result in done.items()}})
    elif page is None:
        print(tables(found, done, seeds))


app.command()(shard)
app.command()(advise.advise)


@app.command(name="list")
def list_(
    what: Annotated[
        str | None, typer.Argument(metavar="KIND", help="One of " + ", ".join(catalogue.KINDS) + "; all by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what there is: recipes, studies, data sets and methods."""
    found = catalogue.everything(what)
    if as_json:
        _print_json(found)
        return
    for kind, entries in found.items():
        print(f"{kind}:")
        width = max(map(len, entries), default=0)
        for name, line in entries.items():
            print(printable(f"  {name:{width}}  {line}"))


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A recipe or a method, as 'fedgraft list' names it.")],
) -> None:
    """Explain a recipe (its resolved options) or a method (source, options, cost)."""
    print(catalogue.explain(name))


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Say how to go on after an interruption: outside of all progress, whose last picture it would be part of."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt, signals.Terminated) as error:
        number = getattr(error, "number", SIGINT)
        stored = (folder / "experiment.toml").exists()
        hint = f"Continue with: fedgraft resume {shlex.quote(str(folder))}" if stored else "Nothing was stored."
        _say(f"{signals.said(number)}. {hint}")
        raise Interrupted("interrupted", number) from error


def _show_summary(summary: dict[str, Any], folder: Path, as_json: bool) -> None:
    if as_json:
        _print_json(summary)
        return
    print("\n".join(map(printable, closing_lines(summary, folder))))


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")


def _writer(path: Path) -> Callable[[Any], None]:
    """Return a function that writes a table to the path, by its suffix."""
    if path.suffix.lower() == ".csv":
        return lambda table: write_csv(table, path)
    if path.suffix.lower() == ".parquet":
        return lambda table: table.to_parquet(path, index=False)
    raise InputError(f"--out {path} must end in .csv or .parquet.")


def main() -> None:
    """Run a command; every error that is the user's to mend is one clear line and an exit code."""
    logging.getLogger("fedgraft.data").addFilter(_made_printable)
    try:
        app()
    except Interrupted as error:
        sys.exit(BY_SIGNAL + error.number)
    except BudgetError as error:
        _fail(error, BUDGET_TOO_SMALL)
    except (InputError, OSError) as error:
        _fail(error, BAD_INPUT)
    except FedgraftError as error:
        _fail(error, FAILED)
    except Exception as error:
        if not memory_shortage(error):
            raise
        _fail(MachineError(f"There is not enough memory. {error}".rstrip()), FAILED)


def _fail(error: Exception, code: int) -> None:
    said = str(error).strip()
    lines = said.split("\n") if isinstance(error, AllClientsFailedError) else [said]  # a line for each client
    messages.print(Text.assemble(("error:", "red"), " ", "\n".join(map(printable, lines))))
    sys.exit(code)


def _made_printable(record: logging.LogRecord) -> bool:
    """Have a note on data, which may hold their names, be one line that can be shown."""
    record.msg, record.args = printable(record.getMessage()), None
    return True


def _say(line: str) -> None:
    """One line for people, on standard error."""
    messages.print(Text(printable(line)))
