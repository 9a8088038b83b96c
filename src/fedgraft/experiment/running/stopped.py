"""What a run has come to that was stopped: its last checkpoint, as a finished run's summary tells it."""

import logging
from dataclasses import dataclass, replace
from typing import Any, Final

from fedgraft.errors import InputError
from fedgraft.experiment.running.summary import summarise
from fedgraft.experiment.storage.outside_classes import stored_experiment
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.wire.layouts import Arrays

LOG = logging.getLogger("fedgraft.data")
STOPPED: Final = "stopped"
"""What ended such a run, as its summary says."""


@dataclass(frozen=True)
class _Named:
    """A client of which no more is known here."""

    name: str


def stopped_summary(run_folder: RunFolder) -> dict[str, Any] | None:
    """Return the summary of a run that has not finished, without baselines; None where nothing is stored yet.

    No data are loaded. A note says that there is more to come.
    """
    stored = run_folder.load() if run_folder.has_checkpoint else None
    if stored is None or not stored[0].round:
        return None
    state, memories = stored
    names = list(run_folder.origin()["clients"])
    if len(names) != len(state.profiles):
        names = [str(number) for number in range(len(state.profiles))]
    experiment = replace(stored_experiment(run_folder), baselines=())
    fingerprints = experiment.runtime.fingerprints(memories)
    LOG.warning(
        f"{run_folder.folder} has not finished: this is what it came to after round {state.round}; 'fedgraft resume "
        f"{run_folder.folder}' goes on."
    )
    summary = summarise(experiment, state, [_Named(name) for name in names], fingerprints, here=False)
    return {**summary, "stopped_by": STOPPED}


def best_so_far(run_folder: RunFolder) -> Arrays:
    """Return the shared parameters that did best until the last checkpoint. Raises `InputError` where there is none."""
    stored = run_folder.load()
    if stored is None:
        raise InputError(
            f"{run_folder.folder} has no checkpoint; finish the run with 'fedgraft resume {run_folder.folder}'."
        )
    return stored[0].best_model
