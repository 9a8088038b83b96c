"""Trackers of experiments that follow a run through their own libraries: TensorBoard, MLflow, Weights & Biases."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from fedgraft.engine.server.loop.stopping import Row
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import missing_extra, unknown
from fedgraft.experiment.job import Job
from fedgraft.experiment.running.recorder import Watcher
from fedgraft.reports.pages.outcome import flat
from fedgraft.reports.stored.stored_runs import after_local_steps, baselines_of

LOG = logging.getLogger("fedgraft.trackers")
FIGURES = ("loss", "validation", "test", "bytes_total", "seconds", "simulated_seconds", "flops")
"""Fields of a round that are tracked where they are known; beside them how many clients were selected and failed."""
TOTALS = ("test_at_best_validation", "raw_data_bytes")
"""Figures of a summary that are tracked at the end; beside them the scores of baselines, and after local steps."""


MOST_PARAMS = 100
"""Parameters that MLflow takes at a time."""


@dataclass(frozen=True)
class Tracker:
    """A place that keeps the figures of a run.

    Args:
        track: keeps the figures of a round, given its number.
        close: ends the run there.
    """

    track: Callable[[Mapping[str, float], int], object]
    close: Callable[[], object]


def tensorboard(experiment: Job, folder: Path) -> Tracker:
    """TensorBoard: event files in the run's folder, `tensorboard --logdir runs`."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder / "tensorboard"))
    writer.add_text("experiment", f"```\n{experiment.to_toml()}\n```")

    def track(figures: Mapping[str, float], round: int) -> None:
        for name, value in figures.items():
            writer.add_scalar(name, value, round)

    return Tracker(track, writer.close)


def mlflow(experiment: Job, folder: Path) -> Tracker:
    """MLflow: a run in the experiment and at the place that MLFLOW_EXPERIMENT_NAME and MLFLOW_TRACKING_URI say."""
    library = import_module("mlflow")
    library.start_run(run_name=folder.name)
    options = list(flat(experiment.recipe.sections).items())
    for first in range(0, len(options), MOST_PARAMS):
        library.log_params(dict(options[first : first + MOST_PARAMS]))
    return Tracker(lambda figures, round: library.log_metrics(dict(figures), step=round), library.end_run)


def wandb(experiment: Job, folder: Path) -> Tracker:
    """Weights & Biases: a run of the project WANDB_PROJECT, "fedgraft" by default; WANDB_MODE=offline keeps it here."""
    library, project = import_module("wandb"), os.environ.get("WANDB_PROJECT", "fedgraft")
    options = {"config": dict(experiment.recipe.sections), "settings": library.Settings(silent=True)}
    run = library.init(project=project, name=folder.name, dir=str(folder), **options)
    return Tracker(lambda figures, round: run.log(dict(figures), step=round), run.finish)


TRACKERS: dict[str, Callable[[Job, Path], Tracker]] = {
    "tensorboard": tensorboard,
    "mlflow": mlflow,
    "wandb": wandb,
}
"""By the names that `--track` takes, which are those of the extras and of the libraries, too."""


class Followed:
    """A watcher that hands rounds on to another one, to trackers and to callbacks.

    A tracker begins with the first round, when the run's folder is there. What goes wrong in a tracker ends it with a
    note, and not the training; what a callback raises ends the run, which can be resumed.
    """

    def __init__(
        self, first: Watcher, begin: Mapping[str, Callable[[], Tracker]], callbacks: Sequence[Callable[[Row], object]]
    ) -> None:
        self._first, self._begin, self._callbacks = first, dict(begin), callbacks
        self._trackers: dict[str, Tracker] = {}

    def after_round(self, state: RunState, row: Row) -> None:
        """Follow a round."""
        self._first.after_round(state, row)
        self._tell(figures_of(row), row.round)
        for callback in self._callbacks:
            callback(row)

    def end(self, summary: Mapping[str, Any]) -> None:
        """Track what came out."""
        figures = {name: summary[name] for name in TOTALS}
        figures["test_after_local_steps"] = after_local_steps(summary)
        figures |= {f"baseline_{name}": score for name, score in baselines_of(summary).items()}
        self._tell({name: float(value) for name, value in figures.items() if value is not None}, summary["rounds"])

    def close(self) -> None:
        """End all trackers."""
        for name, tracker in [*self._trackers.items()]:
            self._guarded(name, tracker.close)

    def _tell(self, figures: Mapping[str, float], round: int) -> None:
        for name in [*self._begin]:
            if name not in self._trackers:
                self._guarded(name, lambda name=name: self._trackers.update({name: self._begin[name]()}))  # type: ignore[misc]
            if name in self._trackers:
                self._guarded(name, lambda name=name: self._trackers[name].track(figures, round))  # type: ignore[misc]

    def _guarded(self, name: str, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # of a library, a disk or a network that is not ours
            LOG.warning("%s does not follow the run any more: %s", name, " ".join(str(error).split()))
            self._begin.pop(name, None)
            self._trackers.pop(name, None)


def figures_of(row: Row) -> dict[str, float]:
    """Return what is tracked of a round."""
    known = {name: getattr(row, name) for name in FIGURES}
    counts = {"selected": len(row.selected), "failed": len(row.failed)}
    return {name: float(value) for name, value in {**known, **counts}.items() if value is not None}


@contextmanager
def followed(
    first: Watcher,
    experiment: Job,
    folder: Path,
    names: Sequence[str] = (),
    callbacks: Sequence[Callable[[Row], object]] = (),
) -> Iterator[Followed]:
    """Enter with a watcher that `first`, trackers of these names and callbacks hear of.

    Raises `InputError` for a name of no tracker, and where its library is missing.
    """
    for name in names:
        if name not in TRACKERS:
            raise unknown("tracker", name, [*TRACKERS])
        with missing_extra(name, by=f"--track {name}"):
            import_module(name)
    begin = {name: partial(TRACKERS[name], experiment, folder) for name in names}
    watcher = Followed(first, begin, callbacks)
    try:
        yield watcher
    finally:
        watcher.close()
