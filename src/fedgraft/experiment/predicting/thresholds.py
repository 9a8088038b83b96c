"""Which of two classes is answered: the rarer one where its probability is at least a threshold."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedgraft.contracts.task_abilities import SHARE
from fedgraft.errors import InputError, require
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.experiment.storage.folder_check import SUMMARY
from fedgraft.wire.layouts import Array


def threshold_of(run: FinishedRun, wanted: float | None) -> tuple[str, float] | None:
    """Return the rarer class and the threshold, the one that is wanted or that of the run; None where there is none.

    Raises `InputError` where one is wanted of a run that does not tell two classes with one of them the rarer.
    """
    if wanted is not None:
        require(0 <= wanted <= 1, "--threshold", "a probability, in [0, 1]", wanted)
    known = _decision(run)
    if wanted is None:
        return (known["class"], known["threshold"]) if known and known["threshold"] is not None else None
    if not known:
        raise InputError(
            "--threshold is for runs that tell two classes of a user's own tables, or that evaluation.metric = 'f1' "
            "judges; this run has none: leave it out."
        )
    return known["class"], wanted


def decided(columns: Mapping[str, Array], threshold: tuple[str, float] | None) -> dict[str, Array]:
    """Return columns of answers, the class being that which a threshold tells; probabilities stay as they are."""
    answers, shares = dict(columns), [name for name in columns if name.startswith(SHARE)]
    if threshold is None or len(shares) != 2 or f"{SHARE}{threshold[0]}" not in columns:
        return answers
    rare, least = f"{SHARE}{threshold[0]}", threshold[1]
    other = next(name for name in shares if name != rare)
    found = np.asarray(columns[rare]) >= least
    names = np.array([other.removeprefix(SHARE), threshold[0]], dtype=object)
    answers["class"] = names[found.astype(np.int64)]
    answers["probability"] = np.where(found, columns[rare], columns[other])
    return answers


def _decision(run: FinishedRun) -> Any:
    """What the run's summary says of it; None for one of an earlier version, or of other labels."""
    return run.run_folder.summary().get("decision") if (run.run_folder.folder / SUMMARY).is_file() else None
