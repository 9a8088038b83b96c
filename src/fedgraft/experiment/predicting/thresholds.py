"""Which of two classes is answered: the rarer one where its probability is at least a threshold."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedgraft.contracts.abilities.predicting import SHARE
from fedgraft.errors import InputError, require
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.experiment.storage.folder_check import SUMMARY
from fedgraft.wire.layouts import Array


@dataclass(frozen=True)
class Threshold:
    """From which probability on the rarer of two classes is answered.

    Args:
        label: name of the label where an example has several; "" where it has one.
        rare: name of the rarer class.
        other: of the other one.
        least: the probability.
    """

    label: str
    rare: str
    other: str
    least: float


def threshold_of(run: FinishedRun) -> tuple[str, float] | None:
    """Return the rarer class and the threshold of a run whose examples have one label; None where there is none."""
    found = [each for each in thresholds_of(run, None) if not each.label]
    return (found[0].rare, found[0].least) if found else None


def thresholds_of(run: FinishedRun, wanted: float | None) -> list[Threshold]:
    """Return the threshold of each label, the one that is wanted or those of the run; none where there are none.

    Raises `InputError` where one is wanted of a run that does not tell two classes with one of them the rarer.
    """
    if wanted is not None:
        require(0 <= wanted <= 1, "--threshold", "a probability, in [0, 1]", wanted)
    known = _decisions(run)
    if wanted is not None and not known:
        raise InputError(
            "--threshold is for runs that tell two classes of a user's own tables, or that evaluation.metric = 'f1' "
            "judges; this run has none: leave it out."
        )
    told = {label: each["threshold"] if wanted is None else wanted for label, each in known.items()}
    return [
        Threshold(label, each["class"], each["other"], told[label])
        for label, each in known.items()
        if told[label] is not None
    ]


def decided(columns: Mapping[str, Array], thresholds: Iterable[Threshold]) -> dict[str, Array]:
    """Return columns of answers, classes being those which thresholds tell; those of probabilities stay."""
    answers = dict(columns)
    for each in thresholds:
        behind = f"_{each.label}" if each.label else ""
        rare, other = f"{SHARE}{each.rare}{behind}", f"{SHARE}{each.other}{behind}"
        if rare not in columns or other not in columns:
            continue
        found = np.asarray(columns[rare]) >= each.least
        names = np.array([other.removeprefix(SHARE).removesuffix(behind), each.rare], dtype=object)
        answers[f"class{behind}"] = names[found.astype(np.int64)]
        answers[f"probability{behind}"] = np.where(found, columns[rare], columns[other])
    return answers


def _decisions(run: FinishedRun) -> dict[str, Any]:
    """{label: what the run's summary says of it}; {} for one of other labels."""
    if not (run.run_folder.folder / SUMMARY).is_file():
        return {}
    summary = run.run_folder.summary()
    return {"": summary["decision"]} if summary.get("decision") else dict(summary.get("decisions", {}))
