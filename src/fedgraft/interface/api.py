"""The Python interface: run an experiment, take it up again, look at it, use its model."""

import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, overload

from fedgraft.engine.server.loop.stopping import Row
from fedgraft.errors import InputError, Interrupted
from fedgraft.experiment.job import Job, chosen
from fedgraft.experiment.running import runner
from fedgraft.experiment.running.warm_start import Start, start_from
from fedgraft.experiment.storage.data_notes import without_notes
from fedgraft.experiment.storage.folder_check import check_free
from fedgraft.experiment.storage.outside_classes import stored_experiment
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.interface.finished import Run
from fedgraft.interface.progress import Progress
from fedgraft.interface.python_arguments import (
    changes_of,
    data_of,
    given_tables,
    recipe_of,
    with_common_tables,
    with_stored_tables,
)
from fedgraft.interface.seed_runs import Runs, check_seeds, run_seeds
from fedgraft.interface.trackers import Followed, followed
from fedgraft.runtimes.workers.starting import leave_if_starting

Follow: TypeAlias = Callable[[Progress, Job, Path], AbstractContextManager[Followed]]
Finished = TypeVar("Finished", Run, Runs)


@overload
def run(recipe: str | Path | Job = "fedacs", *, seeds: None = None, **choices: Any) -> Run: ...
@overload
def run(recipe: str | Path | Job = "fedacs", *, seeds: Sequence[int], **choices: Any) -> Runs: ...
def run(
    recipe: str | Path | Job = "fedacs",
    *,
    data: Any = None,
    out: str | Path | None = None,
    start: Run | str | Path | None = None,
    progress: bool = True,
    on_round: Callable[[Row], object] | Sequence[Callable[[Row], object]] = (),
    track: str | Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    overrides: Mapping[str, Any] | None = None,
    secure: bool = False,
    **choices: Any,
) -> Run | Runs:
    """Run an experiment, or one for each of several seeds.

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
        seeds: one run for each, such as [1, 2, 3], in `out`/seed-1 ...; started again, it goes on. None = one run.
        overrides: {"section.key": value}, applied last.
        secure: mask updates (secure_sum.name = "secagg"), and change what does not suit, but for what is set by you.
        choices: whatever a recipe holds: `rounds`, `seed`, `patience`, `baselines` as values; `selector`, `sampler`,
            `codec`, `model` ... as a name, as a dict of options (another "name" starts from that method's defaults) or
            as an instance, such as Oort(clients=2), of a class of yours too; `model` also as a class or an instance of
            torch.nn.Module; `training`, `budget`, `runtime` ... as a dict, such as budget={"bytes": "2MB"}.

    Returns:
        The finished run, or `Runs`. Raises `InputError` for whatever is wrong with the above, `BudgetError` if the
        budget does not pay for a round, `AllClientsFailedError`, or `Interrupted` if asked to stop (Ctrl-C, SIGTERM).
    """
    leave_if_starting()
    options = {**choices, **({} if data is None else {"data": data_of(data)})}
    begin = None if start is None else start_from(start.folder if isinstance(start, Run) else Path(start))
    experiment = _chosen(recipe, {**changes_of(options), **(overrides or {})}, secure, begin)
    if seeds is not None:
        if choices.get("seed") is not None or start is not None or track or on_round:
            rule = "seeds goes without seed, start, track and on_round"
            raise InputError(f"{rule}; got seeds={seeds!r} beside one of them.")
        return _run_seeds(experiment, check_seeds(seeds, "seeds", seeds, "[1, 2, 3]"), out, progress)
    callbacks = [on_round] if callable(on_round) else list(on_round)
    follow = partial(followed, names=[track] if isinstance(track, str) else list(track), callbacks=callbacks)
    executed = partial(_execute, experiment, progress=progress, start=begin, follow=follow)
    if out is None:
        return _run_in_temporary_folder(experiment, executed)
    try:
        return executed(Path(out))
    except Interrupted as error:
        raise Interrupted(f"{error}; go on with fedgraft.resume({str(out)!r})", error.number) from error


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
    run_folder = RunFolder.open(Path(folder))
    with Progress.of(stored_experiment(run_folder), not progress, rounds) as watcher:
        runner.resume(run_folder, watcher, before, rounds=rounds)
    return Run(folder)


def _chosen(recipe: str | Path | Job, changes: Mapping[str, Any], secure: bool, begin: Start | None = None) -> Job:
    """Return the experiment of a recipe with some options changed; `begin` is what its run begins with."""
    switch = "secure=True" if secure else ""
    return chosen(recipe_of(recipe), changes, switch, begin.findings if begin else None)


# --- running ----------------------------------------------------------------------------------------------------------


def _run_in_temporary_folder(experiment: Job, run: Callable[[Path], Finished]) -> Finished:
    """Return what is run in a folder that goes when nobody has that any more."""
    root = Path(tempfile.mkdtemp(prefix="fedgraft-"))
    try:
        finished = run(root / _label(experiment))
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise
    weakref.finalize(finished, shutil.rmtree, root, ignore_errors=True)
    return finished


def _run_seeds(experiment: Job, seeds: Sequence[int], out: str | Path | None, progress: bool) -> Runs:
    if out is None:
        return _run_in_temporary_folder(experiment, lambda folder: _run_seeds(experiment, seeds, folder, progress))
    say = partial(print, file=sys.stderr) if progress else (lambda line: None)
    try:
        run_seeds(experiment, seeds, Path(out), not progress, say, with_common_tables)
    except Interrupted as error:
        raise Interrupted(f"{error}; the same call with out={str(out)!r} goes on", error.number) from error
    return Runs(out)


def _execute(experiment: Job, folder: Path, progress: bool, start: Start | None, follow: Follow) -> Run:
    frames = given_tables(experiment)
    if frames:
        check_free(folder)
        with without_notes():  # the run, which loads them again, has those
            experiment.shards()  # what is wrong is told of the table that was given, not of a copy
    with Progress.of(experiment, quiet=not progress) as shown, follow(shown, experiment, folder) as watcher:
        keep = with_stored_tables if frames else None
        watcher.end(runner.execute(experiment, folder, watcher, keep, start=start))
    return Run(folder)


def _label(experiment: Job) -> str:
    """Return a folder's name that says what is run."""
    selector, name = experiment.recipe.sections["selector"]["name"], experiment.recipe.name
    label = name if selector == name else f"{name}-{selector}"
    return label.replace(":", ".").replace("/", ".") or "run"
