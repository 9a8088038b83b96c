"""Stored runs, read-only, as tables: what figures, comparisons and reports are made from."""

import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_integer_dtype

from fedgraft.contracts.scores import first_reaching
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.server.ledger import DIRECTIONS, LOCAL, PURPOSES, TRAINING, Entry
from fedgraft.engine.server.loop.stopping import Row
from fedgraft.errors import InputError, printable
from fedgraft.experiment.running.summary import CURVE, best_so_far, stopped_summary
from fedgraft.experiment.storage import disk
from fedgraft.experiment.storage.folder_check import EXPERIMENT, MODEL, ROWS, RUN, SUMMARY
from fedgraft.experiment.storage.provenance import digest_of
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.reports.stored.stored_checks import MOST, OF_ROUND, OF_SUMMARY, Checks, wrong_key

COSTS = {
    "rounds": "round",
    "bytes": "bytes",
    "seconds": "seconds",
    "simulated_seconds": "simulated_seconds",
    "flops": "flops",
}
"""{what scores are shown and runs are compared against: column of a run's curve}."""
AFTER_STEPS = {split: f"{split}_after_steps" for split in SCORED_SPLITS}
"""{split: column of a curve with the scores of clients' models after local steps}."""
TARGET_SLACK = 1.002
"""How far the default target is from the best score: near enough to be a result, far enough not to be luck."""

AMONG_FEW = ("precision_at_", "recall_at_")
"""What names of measures of a class begin with that look at the likeliest examples alone."""
METRIC_NAMES = {
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R2",
    "auc": "AUC",
    "macro_f1": "macro-F1",
    "f1": "F1",
    "balanced_accuracy": "balanced accuracy",
    "average_precision": "average precision",
    **{f"{what}_at_{k}": f"{what} at {k} %" for what in ("precision", "recall") for k in (1, 5, 10)},
}
"""Measures whose names people write otherwise."""
AFTER_LOCAL = "test_after_local_steps"
"""What tables of runs call the score of clients' models after local steps."""
ALONE = "each client alone"
"""What the model reaches where each client trains by itself, as a baseline's name."""
ALL_DATA = "all data, sent once"
"""What sending every client's data once would take."""


class StoredRun:
    """A run, as stored; of one that has not finished what it came to, which a note says.

    Raises `InputError` for a folder that is not a run's, for a run without a checkpoint, and, naming the file, for
    one that is damaged: when it is opened or, for `environment`, the model, and rows that are not what a row is, when
    they are first read.

    Args:
        path: the run's folder.
        label: what to call it; "" = the folder's name.
        so_far: whether one that has not finished will do.
    """

    seeds: "tuple[StoredRun, ...]" = ()
    """The runs that it is the mean of, where it is one."""

    def __init__(self, path: Path, label: str = "", so_far: bool = True) -> None:
        self.path = path
        self.label = printable(label or path.resolve().name)
        if not path.is_dir():
            raise InputError(f"{path} is not a run's folder: there is no such folder.")
        self.run_folder = RunFolder.open(path)
        self.run_folder.check_format()
        try:
            self.experiment: dict[str, Any] = tomllib.loads(self.run_folder.experiment_toml())
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path / EXPERIMENT} is damaged: {error}.") from error
        if not self.experiment:
            raise InputError(f"{path / EXPERIMENT} is damaged: it is empty.")
        come_to = stopped_summary(self.run_folder) if so_far and not (path / SUMMARY).is_file() else None
        self._stopped = come_to is not None
        self.summary = _checked(path / SUMMARY, come_to or self.run_folder.summary())
        if not self._stopped:  # else rows may have come after the checkpoint
            self.run_folder.check_rows()

    def __repr__(self) -> str:
        return f"StoredRun({str(self.path)!r}, {self.label!r})"

    @property
    def selector(self) -> str:
        """The name of who chose."""
        section = self.experiment.get("selector")
        if not isinstance(section, dict) or not isinstance(section.get("name"), str):
            raise InputError(f"{self.path / EXPERIMENT} is damaged: it names no selector.")
        return str(section["name"])

    @cached_property
    def data(self) -> str | None:
        """Fingerprint of all clients' data with their splits; None where that is known to nodes."""
        began = self.run_folder.origin()
        if RUN in self.environment:
            return None
        return digest_of([*began["clients"].items(), *began.get("made", {}).items()])

    @property
    def metric(self) -> str:
        """str, the name of the score."""
        return str(self.summary["metric"])

    @property
    def better(self) -> str:
        """Which scores are better: "lower" or "higher"."""
        return str(self.summary["better"])

    @property
    def measures(self) -> dict[str, float | None]:
        """{measure: value on test} of the model that was best on validation, beside the score; {} where none is."""
        measures = self.summary["measures"].get("test", {})
        return {name: value for name, value in measures.items() if name != self.metric}

    @property
    def clients(self) -> int:
        """int, the number of clients."""
        return int(self.summary["clients"])

    @property
    def best_validation(self) -> float:
        """The best validation score of the curve; nan without one."""
        scores = self.curve["validation"].dropna()
        return float(scores.min() if self.better == "lower" else scores.max()) if len(scores) else math.nan

    @cached_property
    def curve(self) -> pd.DataFrame:
        """One row a scored round, with the columns of `CURVE`; nan where nothing was measured.

        Where local steps are scored it also has those of `AFTER_STEPS`, values, one for each split.
        """
        frame = pd.DataFrame(self.summary["curve"], columns=list(CURVE))
        if (told := self.summary.get("after_local_steps")) is not None:
            frame = frame.assign(**{AFTER_STEPS[split]: told["curve"][split] for split in AFTER_STEPS})
        frame = frame.astype("float64")
        return frame.astype({"round": "int64", "bytes": "int64"})

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row a round, with the fields of `stopping.Row`."""
        path = self.path / ROWS[0]
        rows = list(_numbered(path, self.run_folder.rows(), Row, OF_ROUND))
        rows = rows[: self.summary["rounds"]] if self._stopped else rows
        if len(rows) != self.summary["rounds"]:
            raise InputError(f"{path} is damaged: it has {len(rows)} rounds, {SUMMARY} {self.summary['rounds']}.")
        for row in rows:
            row["selected"] = tuple(row["selected"])
            row["late"] = tuple(row["late"])
            for name in ("failed", "timings", "staleness"):
                row[name] = _by_number(row[name])
            row["explanation"] = {term: _by_number(values) for term, values in row["explanation"].items()}
        frame = pd.DataFrame(rows, columns=[field.name for field in fields(Row)])
        return frame.astype({"loss": "float64", "validation": "float64", "test": "float64"})

    @cached_property
    def ledger(self) -> pd.DataFrame:
        """One row an entry: round, client, direction, purpose, bytes, flops. Bytes sum to what the summary says."""
        path = self.path / ROWS[1]
        names = [field.name for field in fields(Entry)]
        frame = pd.DataFrame(list(_numbered(path, self.run_folder.entries(), Entry, {})), columns=names)
        for column, known in (("direction", (*DIRECTIONS, LOCAL)), ("purpose", (*PURPOSES, TRAINING))):
            strange = [value for value in frame[column] if value not in known]
            if strange:
                raise InputError(f"{path} is damaged: {column} {strange[0]!r:.80} is none of {', '.join(known)}.")
        for column in ("round", "client", "bytes", "flops"):  # column by column: there are many
            if len(frame) and not (is_integer_dtype(frame[column]) and frame[column].between(0, MOST).all()):
                raise InputError(f"{path} is damaged: {column} is not a whole number >= 0 in every line.")
        frame = frame.astype({"round": "int64", "client": "int64", "bytes": "int64", "flops": "int64"})
        frame = frame[frame["round"] <= self.summary["rounds"]] if self._stopped else frame
        total, counted = int(frame["bytes"].sum()), self.summary["bytes"]["total"]
        if total != counted:
            raise InputError(f"{path} is damaged: its entries sum to {total} bytes, {SUMMARY} says {counted}.")
        return frame

    @property
    def sent(self) -> pd.Series:
        """Series of bytes by (direction, purpose)."""
        return self.ledger.groupby(["direction", "purpose"])["bytes"].sum()

    @cached_property
    def environment(self) -> dict[str, Any]:
        """dict, versions and machine."""
        return self.run_folder.environment()

    @cached_property
    def shared_bytes(self) -> float:
        """float, bytes of the shared parameters in 32 bits each; the mean over groups of clients."""
        path = self.path / MODEL
        arrays = best_so_far(self.run_folder) if self._stopped else disk.read_model(path)
        groups = {name.partition("/")[0] for name in arrays if "/" in name}
        return sum(array.nbytes for array in arrays.values()) / max(1, len(groups))

    def reaching(self, target: float) -> Mapping[str, float] | None:
        """The first point of the curve whose validation score is at least as good as `target`; None if none is."""
        points: list[Any] = self.curve.dropna(subset=["validation"]).to_dict("records")
        return first_reaching(points, target, self.better)

    def missed(self, target: float) -> str:
        """Say how near a run came that does not reach a target."""
        return f"not reached (best {self.best_validation:.4g})"


def open_runs(paths: Sequence[Path], labels: Sequence[str] = ()) -> list[StoredRun]:
    """Runs to be looked at together: at least one, each once, all scored by the same metric, labels unique.

    Args:
        paths: their folders.
        labels: what to call each; () = its folder's name, with as many folders above as it takes to tell it apart.
    """
    if not paths:
        raise InputError("Give at least one run's folder.")
    resolved = [path.resolve() for path in paths]
    twice = next((path for path, real in zip(paths, resolved, strict=True) if resolved.count(real) > 1), None)
    if twice is not None:
        raise InputError(f"{twice} is given twice.")
    runs = [StoredRun(*each) for each in zip(paths, labels or _names(resolved), strict=True)]
    check_comparable(runs)
    return runs


def _names(paths: Sequence[Path]) -> list[str]:
    """Return of each path the shortest end that no other one has."""
    return ["/".join(_end(path, [other for other in paths if other != path])).lstrip("/") for path in paths]


def _end(path: Path, others: Sequence[Path]) -> tuple[str, ...]:
    depth = 1
    while path.parts[-depth:] in [other.parts[-depth:] for other in others]:
        depth += 1
    return path.parts[-depth:]


def single(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Return runs with those of all seeds in place of their means."""
    return [one for run in runs for one in (run.seeds or (run,))]


def check_comparable(runs: Sequence[StoredRun]) -> None:
    """Raise `InputError` unless all runs are scored by the same metric."""
    for run in runs[1:]:
        if (run.metric, run.better) != (runs[0].metric, runs[0].better):
            raise InputError(
                f"Runs with different metrics cannot be compared: {runs[0].path} has {runs[0].metric!r} "
                f"({runs[0].better} is better), {run.path} has {run.metric!r} ({run.better} is better)."
            )


def default_target(runs: Sequence[StoredRun]) -> float:
    """The best validation score that any of the runs reaches, worsened by 0.2 %; nan if none has a score.

    That is, times `TARGET_SLACK` where lower is better and divided by it where higher is: at least one run reaches it.
    """
    scores = [run.best_validation for run in runs if not math.isnan(run.best_validation)]
    if not scores:
        return math.nan
    return min(scores) * TARGET_SLACK if runs[0].better == "lower" else max(scores) / TARGET_SLACK


def after_local_steps(summary: Mapping[str, Any]) -> float | None:
    """Return the test score of clients' models after local steps, at its best validation; None where there is none."""
    score: float | None = (summary.get("after_local_steps") or {}).get("test")
    return score


def joined_baselines(tables: Sequence[Mapping[str, Any]]) -> list[tuple[str, float]]:
    """(name, score on test) of every baseline: its mean over the runs of a data set, named if there are several.

    Tables are summaries, or anything else with "dataset", "baselines" and "client_alone".
    """
    return _joined(tables, baselines_of)


def joined_raw_data(tables: Sequence[Mapping[str, Any]]) -> list[tuple[str, float]]:
    """(`ALL_DATA`, bytes): the mean over the runs of a data set whose data are here, named if there are several.

    Tables are summaries, or anything else with "dataset" and "raw_data_bytes".
    """
    return _joined(tables, lambda table: {ALL_DATA: table["raw_data_bytes"]})


def baselines_of(summary: Mapping[str, Any]) -> dict[str, float | None]:
    """{baseline: score on test} of a run, and `ALONE` where that is known and none of them: `local_only` is it."""
    alone = summary["client_alone"]
    own = {} if alone is None or "local_only" in summary["baselines"] else {ALONE: alone["test"]}
    return {**summary["baselines"], **own}


def _joined(
    tables: Sequence[Mapping[str, Any]], of: Callable[[Mapping[str, Any]], Mapping[str, float | None]]
) -> list[tuple[str, float]]:
    """(name, mean over the runs of a data set) of what each run has, where it is known."""
    by_name: dict[tuple[str, str], list[float]] = {}
    for table in tables:
        for name, score in of(table).items():
            if score is not None:
                by_name.setdefault((table["dataset"], name), []).append(score)
    several = len({table["dataset"] for table in tables}) > 1
    joined = []
    for (dataset, name), scores in by_name.items():
        spread = f" (mean of {len(scores)})" if max(scores) > min(scores) else ""
        text = f"{dataset}: {name}{spread}" if several else f"{name}{spread}"
        joined.append((printable(text), sum(scores) / len(scores)))
    return joined


def _numbered(path: Path, rows: Iterable[dict[str, Any]], kind: type[Any], checks: Checks) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON lines, each with all fields of a dataclass; a row that is not is named by its line.

    `checks` are {field: what its value must be}.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing.")
    needed = {field.name: None for field in fields(kind)}.keys()
    for line, row in enumerate(rows, 1):
        if not needed <= row.keys():
            missing = [name for name in needed if name not in row]
            raise InputError(f"{path} is damaged: line {line} has no {', '.join(missing)}.")
        if (wrong := wrong_key(checks, row)) is not None:
            raise InputError(f"{path} is damaged: line {line}: {wrong} is {str(row[wrong])[:80]!r}.")
        yield row


def _checked(path: Path, summary: dict[str, Any]) -> dict[str, Any]:
    """The summary if it has every key, of the right type."""
    if (wrong := wrong_key(OF_SUMMARY, {"after_local_steps": None, **summary})) is not None:
        state = "is missing" if wrong not in summary else f"is {str(summary[wrong])[:80]!r}"
        raise InputError(f"{path} is damaged: {wrong} {state}.")
    return summary


def _by_number(values: Mapping[str, Any]) -> dict[int, Any]:
    """{client: value}, as JSON cannot hold it."""
    return {int(client): value for client, value in values.items()}
