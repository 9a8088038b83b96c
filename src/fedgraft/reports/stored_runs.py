"""Stored runs, read-only, as tables: what figures, comparisons and reports are made from."""

import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors import SafetensorError
from safetensors.numpy import load_file

from fedgraft.contracts.scores import first_reaching
from fedgraft.engine.server.ledger import DIRECTIONS, LOCAL, PURPOSES, TRAINING, Entry
from fedgraft.engine.server.stopping import Row
from fedgraft.errors import InputError
from fedgraft.experiment.run_folder import MODEL, Store

CURVE = ("round", "bytes", "seconds", "validation", "test", "flops")
TARGET_SLACK = 1.002
"""How far the default target is from the best score: near enough to be a result, far enough not to be luck."""

_TEXTS = ("recipe", "dataset", "metric", "better", "digest")
_COUNTS = ("clients", "seed", "rounds", "selections")
_SECONDS = ("seconds", "simulated_seconds")
_SCORES = ("validation", "test", "test_at_best_validation")


class RunFolder:
    """A finished run, as stored.

    Raises `InputError` for a folder that is not a run's, for a run that has not finished, and, naming the file, for
    one that is damaged: when it is opened or, for `rounds`, `ledger` and `environment`, when they are first read.

    Args:
        path: the run's folder.
        label: what to call it; "" = the folder's name.
    """

    def __init__(self, path: Path, label: str = "") -> None:
        self.path = path
        self.label = label or path.resolve().name
        if not path.is_dir():
            raise InputError(f"{path} is not a run's folder: there is no such folder.")
        self._store = Store.open(path)
        try:
            self.experiment: dict[str, Any] = tomllib.loads(self._store.experiment_toml())
        except (ValueError, OSError) as error:
            raise InputError(f"{path / 'experiment.toml'} is damaged: {error}.") from error
        if not self.experiment:
            raise InputError(f"{path / 'experiment.toml'} is damaged: it is empty.")
        self.summary = _checked(path / "summary.json", self._store.summary())

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r}, {self.label!r})"

    @property
    def metric(self) -> str:
        """What the run is scored by."""
        return str(self.summary["metric"])

    @property
    def better(self) -> str:
        """Which scores are better: "lower" or "higher"."""
        return str(self.summary["better"])

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return int(self.summary["clients"])

    @property
    def best_validation(self) -> float:
        """The best validation score of the curve; nan without one."""
        scores = self.curve["validation"].dropna()
        return float(scores.min() if self.better == "lower" else scores.max()) if len(scores) else math.nan

    @cached_property
    def curve(self) -> pd.DataFrame:
        """One row a scored round: round, bytes, seconds, validation, test, flops (nan where nothing was measured)."""
        frame = pd.DataFrame(self.summary["curve"], columns=list(CURVE)).astype("float64")
        return frame.astype({"round": "int64", "bytes": "int64"})

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row a round, with the fields of `loop.Row`."""
        path = self.path / "rounds.jsonl"
        rows = list(_numbered(path, self._store.rows, [field.name for field in fields(Row)]))
        if len(rows) != self.summary["rounds"]:
            raise InputError(f"{path} is damaged: it has {len(rows)} rounds, summary.json {self.summary['rounds']}.")
        try:
            for row in rows:
                row["selected"] = tuple(int(client) for client in row["selected"])
                row["failed"] = {int(client): str(reason) for client, reason in row["failed"].items()}
            frame = pd.DataFrame(rows, columns=[field.name for field in fields(Row)])
            return frame.astype({"loss": "float64", "validation": "float64", "test": "float64"})
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path} is damaged: {error}.") from error

    @cached_property
    def ledger(self) -> pd.DataFrame:
        """One row an entry: round, client, direction, purpose, bytes, flops. Bytes sum to what the summary says."""
        path = self.path / "ledger.jsonl"
        names = [field.name for field in fields(Entry)]
        frame = pd.DataFrame(list(_numbered(path, self._store.entries, names)), columns=names)
        for column, known in (("direction", (*DIRECTIONS, LOCAL)), ("purpose", (*PURPOSES, TRAINING))):
            strange = frame.loc[~frame[column].isin(known), column]
            if len(strange):
                raise InputError(f"{path} is damaged: {column} {strange.iloc[0]!r} is none of {', '.join(known)}.")
        try:
            frame["flops"] = frame["flops"].fillna(0)  # entries of earlier versions have none
            frame = frame.astype({"round": "int64", "client": "int64", "bytes": "int64", "flops": "int64"})
        except (TypeError, ValueError) as error:
            raise InputError(f"{path} is damaged: {error}.") from error
        total, said = int(frame["bytes"].sum()), self.summary["bytes"]["total"]
        if total != said:
            raise InputError(f"{path} is damaged: its entries sum to {total} bytes, summary.json says {said}.")
        return frame

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Versions and machine."""
        path = self.path / "environment.json"
        try:
            content = json.loads(path.read_text())
        except FileNotFoundError as error:
            raise InputError(f"{path} is missing.") from error
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is damaged: {error}.") from error
        if not isinstance(content, dict):
            raise InputError(f"{path} is damaged: it holds no table.")
        return content

    @cached_property
    def shared_bytes(self) -> float:
        """What the shared parameters take as they are kept, in 32 bits each; the mean over groups of clients."""
        path = self.path / MODEL
        try:
            arrays = load_file(path)
        except FileNotFoundError as error:
            raise InputError(f"{path} is missing.") from error
        except (OSError, SafetensorError) as error:
            raise InputError(f"{path} is damaged: {error}.") from error
        groups = {name.partition("/")[0] for name in arrays if "/" in name}
        return sum(array.nbytes for array in arrays.values()) / max(1, len(groups))

    def reaching(self, target: float) -> Mapping[str, float] | None:
        """The first point of the curve whose validation score is at least as good as `target`; None if none is."""
        points: list[Any] = self.curve.dropna(subset=["validation"]).to_dict("records")
        return first_reaching(points, target, self.better)


def open_runs(paths: Sequence[Path]) -> list[RunFolder]:
    """Runs to be looked at together: at least one, each once, all scored by the same metric, labels unique.

    Labels are folder names, with as many folders above as it takes to tell them apart.
    """
    if not paths:
        raise InputError("Give at least one run's folder.")
    resolved = [path.resolve() for path in paths]
    twice = next((path for path, real in zip(paths, resolved, strict=True) if resolved.count(real) > 1), None)
    if twice is not None:
        raise InputError(f"{twice} is given twice.")
    depth = 1
    while len({path.parts[-depth:] for path in resolved}) < len(resolved):
        depth += 1
    runs = [
        RunFolder(path, "/".join(real.parts[-depth:]).lstrip("/")) for path, real in zip(paths, resolved, strict=True)
    ]
    check_comparable(runs)
    return runs


def check_comparable(runs: Sequence[RunFolder]) -> None:
    """Raise `InputError` unless all runs are scored by the same metric."""
    for run in runs[1:]:
        if (run.metric, run.better) != (runs[0].metric, runs[0].better):
            raise InputError(
                f"Runs with different metrics cannot be compared: {runs[0].path} has {runs[0].metric!r} "
                f"({runs[0].better} is better), {run.path} has {run.metric!r} ({run.better} is better)."
            )


def default_target(runs: Sequence[RunFolder]) -> float:
    """The best validation score that any of the runs reaches, worsened by 0.2 %; nan if none has a score.

    That is, times `TARGET_SLACK` where lower is better and divided by it where higher is: at least one run reaches it.
    """
    scores = [run.best_validation for run in runs if not math.isnan(run.best_validation)]
    if not scores:
        return math.nan
    return min(scores) * TARGET_SLACK if runs[0].better == "lower" else max(scores) / TARGET_SLACK


def joined_yardsticks(tables: Sequence[Mapping[str, Any]]) -> list[tuple[str, float]]:
    """(name, score on test) of every yardstick: its mean over the runs of a data set, named if there are several.

    Args:
        tables: summaries, or anything else with "dataset" and "yardsticks".
    """
    found: dict[tuple[str, str], list[float]] = {}
    for table in tables:
        for name, score in table["yardsticks"].items():
            if score is not None:
                found.setdefault((table["dataset"], name), []).append(score)
    several = len({table["dataset"] for table in tables}) > 1
    joined = []
    for (dataset, name), scores in found.items():
        spread = f" (mean of {len(scores)})" if max(scores) > min(scores) else ""
        joined.append((f"{dataset}: {name}{spread}" if several else f"{name}{spread}", sum(scores) / len(scores)))
    return joined


def _numbered(path: Path, read: Any, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON lines, each with all of `names`; a row that is not is named by its line."""
    line = 0
    if not path.is_file():
        raise InputError(f"{path} is missing.")
    try:
        for row in read():
            line += 1
            missing = [name for name in names if name not in row]
            if missing:
                raise InputError(f"{path} is damaged: line {line} has no {', '.join(missing)}.")
            yield row
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} is damaged at or after line {line + 1}: {error}.") from error


def _checked(path: Path, summary: Any) -> dict[str, Any]:
    """The summary if it has every key, of the right type."""
    if not isinstance(summary, dict):
        raise InputError(f"{path} is damaged: it holds no table.")
    wrong = next((name for name, good in _checks(summary) if not good), None)
    if wrong is not None:
        state = "is missing" if wrong not in summary else f"is {str(summary[wrong])[:80]!r}"
        raise InputError(f"{path} is damaged: {wrong} {state}.")
    return summary


def _checks(summary: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    yield from ((name, isinstance(summary.get(name), str)) for name in _TEXTS)
    yield "better", summary.get("better") in ("lower", "higher")
    yield from ((name, _is_count(summary.get(name))) for name in _COUNTS)
    yield from ((name, _is_number(summary.get(name))) for name in _SECONDS)
    yield from ((name, name in summary and _is_score(summary[name])) for name in _SCORES)
    yield "test_plain_mean", "test_plain_mean" in summary and _is_score(summary["test_plain_mean"])
    by_client = summary.get("test_per_client")
    yield "test_per_client", isinstance(by_client, dict) and all(map(_is_score, by_client.values()))
    sizes = summary.get("bytes")
    wanted = ("total", *DIRECTIONS, *PURPOSES)
    yield "bytes", isinstance(sizes, dict) and all(_is_count(sizes.get(name)) for name in wanted)
    curve = summary.get("curve")
    yield "curve", isinstance(curve, list) and len(curve) > 0 and all(map(_is_point, curve))
    yardsticks = summary.get("yardsticks")
    yield "yardsticks", isinstance(yardsticks, dict) and all(map(_is_score, yardsticks.values()))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_score(value: object) -> bool:
    return value is None or _is_number(value)


def _is_point(point: object) -> bool:
    return (
        isinstance(point, list)
        and len(point) == len(CURVE)
        and all(map(_is_count, point[:2]))
        and _is_number(point[2])
        and all(map(_is_score, point[3:]))
    )
