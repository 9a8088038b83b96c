"""A finished run, as Python sees it."""

import html
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import plotly.graph_objects as go
import torch

from fedgraft.contracts.abilities.predicting import PredictingTask
from fedgraft.errors import InputError
from fedgraft.experiment.job import Job
from fedgraft.experiment.predicting.export import export, exported
from fedgraft.experiment.predicting.predict import embeddings, predict
from fedgraft.experiment.predicting.site_run import load_run
from fedgraft.experiment.recipes.units import human_bytes, human_failures, human_seconds
from fedgraft.experiment.storage.finished_run import FinishedRun, load_model
from fedgraft.experiment.storage.outside_classes import stored_experiment
from fedgraft.interface.python_arguments import python_words
from fedgraft.reports.figures import choice_figures, curve_figures, figures
from fedgraft.reports.pages.html_report import write_report
from fedgraft.reports.stored.comparison import shown_score
from fedgraft.reports.stored.orders import is_explained
from fedgraft.reports.stored.stored_runs import StoredRun, baselines_of
from fedgraft.tables.table_files import Given


class Represented:
    """An object that shows its properties in a terminal and in a notebook."""

    def _properties(self) -> Sequence[tuple[str, str]]:
        """Return (name, value) of each property."""
        raise NotImplementedError

    def __repr__(self) -> str:
        properties = ", ".join(f"{name} {value}" for name, value in self._properties())
        return f"<fedgraft.{type(self).__name__} {properties}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{html.escape(name)}</th>'
            f'<td style="text-align:left">{html.escape(value)}</td></tr>'
            for name, value in self._properties()
        )
        return f"<table>{rows}</table>"


class Run(Represented):
    """A finished run.

    Args:
        folder: where it is stored.

    Raises `InputError` if the folder is not a run's, or the run's is not finished or damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self._stored = StoredRun(Path(folder))
        self._within: object = None  # with whom a temporary folder goes that holds this run's

    @property
    def folder(self) -> Path:
        """Where the run is stored; a temporary folder, gone with this object, of a run without `out`."""
        return self._stored.path

    @property
    def summary(self) -> dict[str, Any]:
        """Scores, bytes, baselines, digest and curve, as `summary.json` holds them."""
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
    def experiment(self) -> Job:
        """Job that was run."""
        return stored_experiment(self._stored.run_folder)

    @cached_property
    def _finished(self) -> FinishedRun:
        return load_run(self._stored.run_folder)

    @cached_property
    def model(self) -> torch.nn.Module:
        """The trained model, in evaluation mode, with the parameters that were best on validation.

        Raises `InputError` where clients ended with models of their own: see `models`.
        """
        return load_model(self._stored.run_folder)

    @property
    def models(self) -> Mapping[str, torch.nn.Module]:
        """{name of a client: the model that it answers with}, as `client_model` returns it, made when asked for."""
        return _Models(self)

    def client_model(self, name: str) -> torch.nn.Module:
        """Return the model that one client answers with, in evaluation mode: the shared parameters and its own.

        Where all share one model, that is `model`. The run's data are loaded again, once for all clients.

        Args:
            name: of the client, one of those of `summary["test_per_client"]`.
        """
        return self._finished.client_model(self._finished.number(name))

    def export(self, client: str | None = None, folder: str | Path | None = None) -> torch.nn.Module:
        """Return the trained model as a module over tensors: `forward(x, edge_index)`, and `batch` for graphs.

        Args:
            client: whose model, where each has its own; None = the one of all.
            folder: where to write it as source text (model.py), weights (model.safetensors) and README.md, which say
                what it reads and need no fedgraft; None = nowhere.

        Returns:
            The module, in evaluation mode; its outputs are those of `models` to 1e-5. Raises `InputError` for tasks,
            encoders and options that cannot be exported.
        """
        with python_words(), tempfile.TemporaryDirectory(prefix="fedgraft-") as made:
            where = Path(made if folder is None else folder)
            export(self._finished, where, client)
            return exported(where)

    def predict(
        self,
        questions: Given | Sequence[Any] | None = None,
        own: Given | None = None,
        *more_own: Given | None,
        client: str | None = None,
        k: int | None = None,
        probabilities: bool = False,
        threshold: float | None = None,
        allow_changed_data: bool = False,
        data_root: str | Path | None = None,
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
            probabilities: whether a column for each class, "probability_CLASS", tells its probability, for tasks that
                tell classes; nan where a client does not know the class.
            threshold: the probability from which on the rarer of two classes is answered, in [0, 1]; None = as the run
                has chosen on validation, or the likeliest class where it has not.
            allow_changed_data: answer from the run's data as they are now, though they are others than the run began
                with; a note says which. A client that was not there gets the shared model.
            data_root: where the run's data are now; None = where they were.
            tables: what else the task takes, by name; one client's own tables too, `own_X` for X.

        Returns:
            The questions, once for each answer, with the client that answers, and the answers.
        """
        by_name, own_by_name = self._question_tables(questions, tables)
        with python_words():
            run = load_run(self._stored.run_folder, None if data_root is None else Path(data_root), allow_changed_data)
            return predict(
                run,
                by_name,
                client,
                own,
                *more_own,
                count=k,
                probabilities=probabilities,
                threshold=threshold,
                **own_by_name,
            )

    def embeddings(
        self,
        questions: Given | Sequence[Any] | None = None,
        own: Given | None = None,
        *more_own: Given | None,
        client: str | None = None,
        **tables: Given | None,
    ) -> pd.DataFrame:
        """Return the last hidden layer of nodes or graphs: the test examples, or those that are asked about.

        Args:
            questions: as of `predict`; None, and no `tables`, = the test examples of all clients, or of `client`.
            own: as of `predict`.
            more_own: as of `predict`.
            client: as of `predict`.
            tables: as of `predict`.

        Returns:
            A row for each: the questions, "client", "node" or "graph", and embedding_0, embedding_1 ...
        """
        by_name, own_by_name = self._question_tables(questions, tables)
        with python_words():
            return embeddings(self._finished, by_name, client, own, *more_own, **own_by_name)

    def _question_tables(
        self, questions: Given | Sequence[Any] | None, tables: Mapping[str, Given | None]
    ) -> tuple[dict[str, Given | None], dict[str, Given | None]]:
        """Return tables of questions by name, and one client's own tables by keyword."""
        by_name = {name: table for name, table in tables.items() if not name.startswith("own_")}
        own_by_name = {name: table for name, table in tables.items() if name.startswith("own_")}
        task = self.experiment.plan.task.ability(PredictingTask)
        if questions is not None and task is not None:
            if isinstance(questions, str | Path | pd.DataFrame):
                by_name[task.asks[0]] = questions
            else:
                by_name |= task.tables_of(questions)
        return by_name, own_by_name

    def figures(self, target: float | None = None) -> list[go.Figure]:
        """Return every figure of the report; each shows inline in a notebook.

        Args:
            target: the validation score for "bytes to target"; None = the best, worsened by 0.2 %.
        """
        drawn = figures.every([self._stored], target)
        return [*drawn, choice_figures.why_chosen(self._stored)] if is_explained(self._stored) else drawn

    def plot(self, against: str = "rounds") -> go.Figure:
        """Plot scores, inline in a notebook, against "rounds", "bytes", "seconds", "simulated_seconds" or "flops"."""
        return curve_figures.score([self._stored], against)

    def report(
        self,
        path: str | Path,
        *others: "HasFolder | str | Path",
        target: str | float | None = None,
        title: str = "fedgraft report",
        representations: bool = False,
        against: str = "rounds",
        data_root: str | Path | None = None,
        allow_changed_data: bool = False,
        labels: Sequence[str] = (),
        classes: bool | None = None,
    ) -> Path:
        """Write one HTML file that opens offline, of this run and of others beside it; arguments as `write_report`."""
        root = None if data_root is None else Path(data_root)
        folders = folders_of([self, *others])
        options = (target, title, representations, against, root, allow_changed_data, labels, classes)
        with python_words():
            return write_report(folders, Path(path), *options)

    def _properties(self) -> list[tuple[str, str]]:
        summary = self.summary
        metric, size, seconds = summary["metric"], summary["bytes"], human_seconds(summary["seconds"])
        return [
            ("recipe", f"{summary['recipe']}, selector {self._stored.selector}"),
            ("data", f"{summary['dataset']}, {summary['clients']} clients, seed {summary['seed']}"),
            *([("scored", f"{summary['scored']} of the clients")] if summary["scored"] else []),
            ("rounds", f"{summary['rounds']} in {seconds}, ended by {summary['stopped_by']}"),
            ("bytes", f"{human_bytes(size['total'])} ({human_bytes(size['down'])} down, {human_bytes(size['up'])} up)"),
            (f"{metric} on validation, best", shown_score(self._stored.best_validation)),
            (f"{metric} on test, there", shown_score(summary["test_at_best_validation"])),
            *([("all data, sent once", human_bytes(raw))] if (raw := summary["raw_data_bytes"]) is not None else []),
            *((f"baseline {name}", shown_score(score)) for name, score in baselines_of(summary).items()),
            *([("failures", failures)] if (failures := human_failures(summary["failures"])) else []),
            ("folder", str(self.folder)),
        ]


class _Models(Mapping[str, torch.nn.Module]):
    """The models of a run's clients, by name."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __getitem__(self, name: str) -> torch.nn.Module:
        return self._run.client_model(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._run._finished.names)

    def __len__(self) -> int:
        return len(self._run._finished.names)

    def __repr__(self) -> str:
        return f"<models of {', '.join(map(repr, self))}>"


class HasFolder(Protocol):
    """A run, or runs of several seeds."""

    @property
    def folder(self) -> Path:
        """Where it is stored."""


def folders_of(runs: Sequence[HasFolder | str | Path]) -> list[Path]:
    """Return where runs are. Raises `InputError` for what is no list of them."""
    if isinstance(runs, Run | str | Path):
        raise InputError(f"Give a list of runs, such as [run]; got {runs!r}.")
    return [Path(each) if isinstance(each, str | Path) else each.folder for each in runs]
