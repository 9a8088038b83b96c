"""The Python interface: run an experiment, take it up again, look at it, use its model."""

import html
import logging
import math
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import torch

from fedgraft.contracts.data import GivenData
from fedgraft.contracts.table_files import Given
from fedgraft.contracts.task_abilities import PredictingTask
from fedgraft.errors import InputError, unknown
from fedgraft.experiment import discovery, runner
from fedgraft.experiment.experiment import Experiment, build
from fedgraft.experiment.finished_run import FinishedRun, load_model
from fedgraft.experiment.folder_check import check_free
from fedgraft.experiment.outside_classes import stored_experiment
from fedgraft.experiment.predict import predict
from fedgraft.experiment.recipe import override, read_recipe
from fedgraft.experiment.run_folder import Store
from fedgraft.experiment.sections import METHODS, SETTINGS, VALUES, Section
from fedgraft.experiment.site_run import open_run
from fedgraft.experiment.units import human_bytes, human_failures, human_seconds
from fedgraft.interface.progress import Progress
from fedgraft.reports import comparison, figures
from fedgraft.reports.choice_figures import why_chosen
from fedgraft.reports.choices import is_explained
from fedgraft.reports.html_report import write_report
from fedgraft.reports.stored_runs import RunFolder, yardsticks_of

DATA = "data"
"""Folder inside a run's folder that holds tables which were given as DataFrames."""


class Run:
    """A finished run.

    Args:
        folder: where it is stored.

    Raises `InputError` if the folder is not a run's, or the run's is not finished or damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self._stored = RunFolder(Path(folder))

    @property
    def folder(self) -> Path:
        """Where the run is stored; a temporary folder, gone with this object, of a run without `out`."""
        return self._stored.path

    @property
    def summary(self) -> dict[str, Any]:
        """Scores, bytes, yardsticks, digest and curve, as `summary.json` holds them."""
        return self._stored.summary

    @property
    def history(self) -> pd.DataFrame:
        """One row a round.

        Columns: round, selected, failed ({client: reason}), loss, validation, test, bytes, bytes_total, seconds (so
        far), simulated_seconds (so far), flops, timings ({client: (simulated seconds of training, of communication)}),
        late, staleness ({client: rounds}), began (simulated seconds when the orders were sent), scored (how many
        clients scores are of; 0 = all), terms ({term of the selector's choice: {client: value}}).
        """
        return self._stored.rounds.copy()

    @property
    def ledger(self) -> pd.DataFrame:
        """One row for every round, client, direction and purpose: what was sent, in bytes."""
        return self._stored.ledger.copy()

    @cached_property
    def experiment(self) -> Experiment:
        """Experiment that was run."""
        return stored_experiment(Store.open(self.folder))

    @cached_property
    def _finished(self) -> FinishedRun:
        return open_run(self.folder)

    @cached_property
    def model(self) -> torch.nn.Module:
        """The trained model, in evaluation mode, with the parameters that were best on validation.

        Raises `InputError` where clients ended with models of their own: see `client_model`.
        """
        return load_model(self.folder)

    def client_model(self, name: str) -> torch.nn.Module:
        """Return the model that one client answers with, in evaluation mode: the shared parameters and its own.

        Where all share one model, that is `model`. The run's data are loaded again, once for all clients.

        Args:
            name: of the client, one of those of `summary["test_per_client"]`.
        """
        return self._finished.client_model(self._finished.number(name))

    def predict(
        self,
        questions: Given | Sequence[Any] | None = None,
        own: Given | None = None,
        *more_own: Given | None,
        client: str | None = None,
        k: int | None = None,
        **tables: Given | None,
    ) -> pd.DataFrame:
        """Answer questions with the trained model.

        What tables there are, and their columns, is on the page of the run's task: `fedgraft predict --help`.

        Args:
            questions: a table whose rows get an answer each, the first of those that the task takes; or a list of
                objects, where the task knows such objects.
            own: the first table of one client's own, to use the model where the run's data are not; None = the run's.
            more_own: that client's other tables, in order.
            client: the name of who answers all of them; None leaves it to the task and to a column "client".
            k: answers to each question, for a task that gives several, such as items to a user; None leaves it to the
                task and to a column "k".
            tables: what else the task takes, by name; one client's own tables too, `own_X` for X.

        Returns:
            The questions, once for each answer, with the client that answers, and the answers.
        """
        asked = {name: table for name, table in tables.items() if not name.startswith("own_")}
        own_by_name = {name: table for name, table in tables.items() if name.startswith("own_")}
        task = self.experiment.plan.task
        if questions is not None and isinstance(task, PredictingTask):
            if isinstance(questions, str | Path | pd.DataFrame):
                asked[task.asks[0]] = questions
            else:
                asked |= task.tables_of(questions)
        return predict(self.folder, asked, client, own, *more_own, count=k, **own_by_name)

    def figures(self, target: float | None = None) -> list[go.Figure]:
        """Return every figure of the report; each shows inline in a notebook.

        Args:
            target: the validation score for "bytes to target"; None = the best, worsened by 0.2 %.
        """
        drawn = figures.every([self._stored], target)
        return [*drawn, why_chosen(self._stored)] if is_explained(self._stored) else drawn

    def plot(self, against: str = "rounds") -> go.Figure:
        """Plot scores, inline in a notebook, against "rounds", "bytes", "seconds", "simulated_seconds" or "flops"."""
        return figures.score([self._stored], against)

    def report(
        self,
        path: str | Path,
        *others: "Run | str | Path",
        target: str | float | None = None,
        title: str = "fedgraft report",
        representations: bool = False,
        against: str = "rounds",
    ) -> Path:
        """Write one HTML file that opens offline, of this run and of others beside it; arguments as `write_report`."""
        return write_report(_folders([self, *others]), Path(path), target, title, representations, against)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self._facts())
        return f"<fedgraft.Run {facts}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{html.escape(name)}</th>'
            f'<td style="text-align:left">{html.escape(value)}</td></tr>'
            for name, value in self._facts()
        )
        return f"<table>{rows}</table>"

    def _facts(self) -> list[tuple[str, str]]:
        said = self.summary
        metric, size = said["metric"], said["bytes"]
        return [
            ("recipe", f"{said['recipe']}, selector {self._stored.selector}"),
            ("data", f"{said['dataset']}, {said['clients']} clients, seed {said['seed']}"),
            *([("scored", f"{said['scored']} of the clients")] if said.get("scored") else []),
            ("rounds", f"{said['rounds']} in {human_seconds(said['seconds'])}, ended by {said.get('stopped_by', '-')}"),
            ("bytes", f"{human_bytes(size['total'])} ({human_bytes(size['down'])} down, {human_bytes(size['up'])} up)"),
            (f"{metric} on validation, best", _score(self._stored.best_validation)),
            (f"{metric} on test, there", _score(said["test_at_best_validation"])),
            *([("all data, sent once", human_bytes(raw))] if (raw := said.get("raw_data_bytes")) is not None else []),
            *((f"yardstick {name}", _score(score)) for name, score in yardsticks_of(said).items()),
            *([("failures", failures)] if (failures := human_failures(said.get("failures"))) else []),
            ("folder", str(self.folder)),
        ]


def run(
    recipe: str | Path | Experiment = "fedacs",
    *,
    data: Any = None,
    out: str | Path | None = None,
    progress: bool = True,
    overrides: Mapping[str, Any] | None = None,
    **choices: Any,
) -> Run:
    """Run an experiment.

    Args:
        recipe: the name of a recipe, the path of a TOML file, or an experiment.
        data: own ratings as a DataFrame (columns user, item, rating, and category or client) or as the path of a CSV
            or Parquet file; or a dict such as {"ratings": ..., "trust": ..., "low": 1, "high": 5}, with the options of
            the data set `table`; or another data set's name, or a dict with its "name" and options. A `client` column
            says who holds what, unless the dict has "partition" or "clients".
        out: folder of the run, new or empty, to be resumed, opened and reported on later; a DataFrame is stored there
            as Parquet. None keeps the run as long as the returned object lives.
        progress: show progress on standard error: live on a terminal, plain lines elsewhere.
        overrides: {"section.key": value}, applied last.
        choices: whatever a recipe holds: `rounds`, `seed`, `patience`, `yardsticks` as values; `selector`, `sampler`,
            `codec`, `model` ... as a name or as a dict of options (another "name" starts from that method's defaults);
            `training`, `budget`, `evaluation`, `runtime` ... as a dict, such as budget={"bytes": "2MB"}.

    Returns:
        The finished run. Raises `InputError` for whatever is wrong with the above, `BudgetError` if the budget does not
        pay for a single round, `AllClientsFailedError`, or `Interrupted` if asked to stop (Ctrl-C, SIGTERM).
    """
    given = {**choices, **({} if data is None else {"data": _data(data)})}
    name, content = _content(recipe)
    experiment = build(name, override(content, {**_changes(given), **(overrides or {})}))
    if out is not None:
        try:
            _execute(experiment, Path(out), progress)
        except runner.Interrupted as error:
            hint = f"{error}; go on with fedgraft.resume({str(out)!r})"
            raise runner.Interrupted(hint, error.number) from error
        return Run(out)
    return _run_in_temporary_folder(experiment, progress)


def open(folder: str | Path) -> Run:
    """Open a finished run from its folder."""
    return Run(folder)


def resume(folder: str | Path, progress: bool = True, before: bool = False) -> Run:
    """Take a stored run up where it stopped; it ends with the same bits as if it never had.

    Args:
        folder: the run's.
        progress: whether to print a line a round.
        before: whether to go back to the checkpoint before the last one, such as when a client spoiled the model.
    """
    experiment = stored_experiment(Store.open(Path(folder)))
    with Progress.of(experiment, quiet=not progress) as watcher:
        runner.resume(Path(folder), watcher, before)
    return Run(folder)


def compare(
    runs: Sequence[Run | str | Path], target: str | float | None = None, against: str | None = None
) -> pd.DataFrame:
    """Put runs side by side, a row each: scores, bytes, how often clients failed, bytes to a target score, yardsticks.

    Args:
        runs: finished runs, or their folders, with one metric.
        target: the validation score to reach, as a number or as "rmse=0.95"; None = the best that any of the runs
            reaches, worsened by 0.2 %.
        against: the cost to the target that orders the rows, lowest first: "rounds", "bytes", "seconds",
            "simulated_seconds" or "flops"; None = as given.
    """
    rows = comparison.compare(_folders(runs), target, against)
    for row in rows:
        row["failures"] = None if row["failures"] is None else sum(row["failures"].values())
        row["client_alone"] = None if row["client_alone"] is None else row["client_alone"]["test"]
    yardsticks = [row.pop("yardsticks") for row in rows]
    scores = pd.DataFrame([{f"yardstick_{name}": score for name, score in each.items()} for each in yardsticks])
    return pd.concat([pd.DataFrame(rows), scores], axis=1).set_index("run")


# --- what the user gave -----------------------------------------------------------------------------------------------


def _content(recipe: str | Path | Experiment) -> tuple[str, Section]:
    return (recipe.recipe, recipe.sections) if isinstance(recipe, Experiment) else read_recipe(str(recipe))


def _changes(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"section.key": value} of keyword arguments."""
    changes: dict[str, Any] = {}
    for key, value in choices.items():
        if key not in METHODS and key not in SETTINGS and key not in VALUES:
            raise unknown("argument", key, ["out", "progress", "overrides", *METHODS, *SETTINGS, *VALUES])
        if key in VALUES:
            changes[key] = list(value) if isinstance(value, tuple) else value
        elif isinstance(value, Mapping):
            changes.update({f"{key}.{option}": given for option, given in value.items()})
        elif key in METHODS and isinstance(value, str):
            changes[f"{key}.name"] = value
        elif key in ("codec", "downlink") and isinstance(value, list | tuple):
            changes[key] = list(value)
        else:
            example = '"name" or {"name": ..., "option": ...}' if key in METHODS else '{"option": ...}'
            raise InputError(f"{key} must be given as {example}; got {value!r}.")
    return changes


def _data(data: Any) -> Any:
    """Return the section [data] that was meant: where there is no name, of the data set that knows what was given."""
    if (isinstance(data, str) and data in discovery.names("data")) or (isinstance(data, Mapping) and "name" in data):
        return data
    for name in {*discovery.names("data")} - {*discovery.presets("data")}:
        cls = discovery.find("data", name)
        if issubclass(cls, GivenData) and (options := cls.options_from(data)) is not None:
            return {"name": name, **options}
    return data


# --- running ----------------------------------------------------------------------------------------------------------


def _run_in_temporary_folder(experiment: Experiment, progress: bool) -> Run:
    root = Path(tempfile.mkdtemp(prefix="fedgraft-"))
    selector = experiment.sections["selector"]["name"]
    label = experiment.recipe if selector == experiment.recipe else f"{experiment.recipe}-{selector}"
    try:
        folder = root / (label.replace(":", ".").replace("/", ".") or "run")
        _execute(experiment, folder, progress)
        finished = Run(folder)
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise
    weakref.finalize(finished, shutil.rmtree, root, ignore_errors=True)
    return finished


def _execute(experiment: Experiment, folder: Path, progress: bool) -> None:
    frames = _given_tables(experiment)
    if frames:
        check_free(folder)
        with _without_notes():  # the run, which loads them again, has those
            experiment.shards()  # what is wrong is told of the table that was given, not of a copy
    with Progress.of(experiment, quiet=not progress) as watcher:
        runner.execute(experiment, folder, watcher, _with_stored_tables if frames else None)


def _given_tables(experiment: Experiment) -> dict[str, pd.DataFrame]:
    return experiment.data.tables() if isinstance(experiment.data, GivenData) else {}


def _with_stored_tables(experiment: Experiment, store: Store) -> Experiment:
    """Return the experiment with all tables given in memory written to the run's folder and read there."""
    frames = _given_tables(experiment)
    paths = {f"data.{key}": store.path_for(f"{DATA}/{key}.parquet") for key in frames}
    for (key, frame), path in zip(frames.items(), paths.values(), strict=True):
        _store_table(frame, path, f"data.{key}")
    return experiment.with_changes(paths)


@contextmanager
def _without_notes() -> Iterator[None]:
    """Leave out what loading notes on data."""
    log = logging.getLogger("fedgraft.data")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _store_table(frame: pd.DataFrame, path: Path, parameter: str) -> None:
    """Store as Parquet, which wants one type a column: ids of several types become the text that they stand for."""
    mixed = {str(c): frame[c].map(str, na_action="ignore") for c in frame if frame[c].dtype == object}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.assign(**mixed).to_parquet(path, index=False)
    except (OSError, ValueError, TypeError) as error:  # Arrow's errors are ValueErrors and TypeErrors
        raise InputError(f"{parameter} cannot be stored in {path}: {error}.") from error


# --- showing ----------------------------------------------------------------------------------------------------------


def _folders(runs: Sequence[Run | str | Path]) -> list[Path]:
    if isinstance(runs, Run | str | Path):
        raise InputError(f"Give a list of runs, such as [run]; got {runs!r}.")
    return [each.folder if isinstance(each, Run) else Path(each) for each in runs]


def _score(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"
