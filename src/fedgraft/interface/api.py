"""The Python interface: run an experiment, take it up again, look at it, use its model."""

import logging
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from fedgraft.contracts.data import GivenData
from fedgraft.engine.server.stopping import Row
from fedgraft.errors import InputError, Interrupted
from fedgraft.experiment import runner
from fedgraft.experiment.experiment import Experiment, build
from fedgraft.experiment.folder_check import check_free
from fedgraft.experiment.outside_classes import stored_experiment
from fedgraft.experiment.recipe import override
from fedgraft.experiment.run_folder import Store
from fedgraft.experiment.warm_start import Start, start_from
from fedgraft.interface.finished import Run, folders_of
from fedgraft.interface.given import changes_of, content_of, data_of
from fedgraft.interface.progress import Progress
from fedgraft.interface.trackers import Followed, followed
from fedgraft.reports import comparison

Follow: TypeAlias = Callable[[Progress, Experiment, Path], AbstractContextManager[Followed]]

DATA = "data"
"""Folder inside a run's folder that holds tables which were given as DataFrames."""


def run(
    recipe: str | Path | Experiment = "fedacs",
    *,
    data: Any = None,
    out: str | Path | None = None,
    start: Run | str | Path | None = None,
    progress: bool = True,
    on_round: Callable[[Row], object] | Sequence[Callable[[Row], object]] = (),
    track: str | Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    **choices: Any,
) -> Run:
    """Run an experiment.

    Args:
        recipe: the name of a recipe, the path of a TOML file, or an experiment.
        data: own ratings as a DataFrame (columns user, item, rating, and perhaps client or category) or as the path of
            a CSV or Parquet file; or a dict such as {"ratings": ..., "trust": ..., "low": 1, "high": 5}, with the
            options of the data set `table`. A PyG `Data` object, or {client: Data}, is a graph to classify the nodes
            of; [Data, ...] or {client: [Data, ...]} are graphs to classify. Or another data set's name, or a dict with
            its "name" and options.
        out: folder of the run, new or empty, to be resumed, opened and reported on later; a DataFrame is stored there
            as Parquet. None keeps the run as long as the returned object lives.
        start: a run, or its folder, whose trained model this one begins with, such as yesterday's on today's data.
            Task, encoder and shapes must be the same. None draws the first model.
        progress: show progress on standard error: live on a terminal, plain lines elsewhere.
        on_round: called after each round with its `Row`, whose fields are columns of `Run.history`; one or several.
        track: trackers that follow the run: "tensorboard", "mlflow", "wandb"; each needs the extra of its name.
        overrides: {"section.key": value}, applied last.
        choices: whatever a recipe holds: `rounds`, `seed`, `patience`, `yardsticks` as values; `selector`, `sampler`,
            `codec`, `model` ... as a name, as a dict of options (another "name" starts from that method's defaults) or
            as an instance, such as Oort(clients=2), of a class of yours too; `model` also as a class or an instance of
            torch.nn.Module; `training`, `budget`, `evaluation`, `runtime` ... as a dict, such as budget={"bytes":
            "2MB"}.

    Returns:
        The finished run. Raises `InputError` for whatever is wrong with the above, `BudgetError` if the budget does not
        pay for a single round, `AllClientsFailedError`, or `Interrupted` if asked to stop (Ctrl-C, SIGTERM).
    """
    given = {**choices, **({} if data is None else {"data": data_of(data)})}
    name, content = content_of(recipe)
    experiment = build(name, override(content, {**changes_of(given), **(overrides or {})}))
    begin = None if start is None else start_from(start.folder if isinstance(start, Run) else Path(start))
    callbacks = [on_round] if callable(on_round) else list(on_round)
    follow = partial(followed, names=[track] if isinstance(track, str) else list(track), callbacks=callbacks)
    if out is not None:
        try:
            _execute(experiment, Path(out), progress, begin, follow)
        except Interrupted as error:
            hint = f"{error}; go on with fedgraft.resume({str(out)!r})"
            raise Interrupted(hint, error.number) from error
        return Run(out)
    return _run_in_temporary_folder(experiment, progress, begin, follow)


def open(folder: str | Path) -> Run:
    """Open a finished run from its folder."""
    return Run(folder)


def resume(folder: str | Path, progress: bool = True, before: bool = False, rounds: int | None = None) -> Run:
    """Take a stored run up where it stopped; it ends with the same bits as if it never had.

    Args:
        folder: the run's.
        progress: whether to print a line a round.
        before: whether to go back to the checkpoint before the last one, such as when a client spoiled the model.
        rounds: how many there are to be in all, also for a run that has ended: it ends as if they had been asked for at
            first. None = as many as were. Raises `InputError` where the rounds so far would have been others.
    """
    experiment = stored_experiment(Store.open(Path(folder)))
    with Progress.of(experiment, not progress, rounds) as watcher:
        runner.resume(Path(folder), watcher, before, rounds=rounds)
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
    rows = comparison.compare(folders_of(runs), target, against)
    for row in rows:
        row["failures"] = None if row["failures"] is None else sum(row["failures"].values())
        row["client_alone"] = None if row["client_alone"] is None else row["client_alone"]["test"]
    yardsticks = [row.pop("yardsticks") for row in rows]
    scores = pd.DataFrame([{f"yardstick_{name}": score for name, score in each.items()} for each in yardsticks])
    return pd.concat([pd.DataFrame(rows), scores], axis=1).set_index("run")


# --- running ----------------------------------------------------------------------------------------------------------


def _run_in_temporary_folder(experiment: Experiment, progress: bool, start: Start | None, follow: Follow) -> Run:
    root = Path(tempfile.mkdtemp(prefix="fedgraft-"))
    selector = experiment.sections["selector"]["name"]
    label = experiment.recipe if selector == experiment.recipe else f"{experiment.recipe}-{selector}"
    try:
        folder = root / (label.replace(":", ".").replace("/", ".") or "run")
        _execute(experiment, folder, progress, start, follow)
        finished = Run(folder)
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise
    weakref.finalize(finished, shutil.rmtree, root, ignore_errors=True)
    return finished


def _execute(experiment: Experiment, folder: Path, progress: bool, start: Start | None, follow: Follow) -> None:
    frames = _given_tables(experiment)
    if frames:
        check_free(folder)
        with _without_notes():  # the run, which loads them again, has those
            experiment.shards()  # what is wrong is told of the table that was given, not of a copy
    with Progress.of(experiment, quiet=not progress) as shown, follow(shown, experiment, folder) as watcher:
        keep = _with_stored_tables if frames else None
        watcher.end(runner.execute(experiment, folder, watcher, keep, start=start))


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
