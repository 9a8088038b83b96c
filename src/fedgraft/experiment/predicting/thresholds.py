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
        positive_class: name of the rarer class.
        other: of the other one.
        least: the probability.
    """

    label: str
    positive_class: str
    other: str
    least: float


def threshold_of(run: FinishedRun) -> tuple[str, float] | None:
    """Return the rarer class and the threshold of a run whose examples have one label; None where there is none."""
    found = [each for each in thresholds_of(run, None) if not each.label]
    return (found[0].positive_class, found[0].least) if found else None


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
        positive_class, other = f"{SHARE}{each.positive_class}{behind}", f"{SHARE}{each.other}{behind}"
        if positive_class not in columns or other not in columns:
            continue
        found = np.asarray(columns[positive_class]) >= each.least
        names = np.array([other.removeprefix(SHARE).removesuffix(behind), each.positive_class], dtype=object)
        answers[f"class{behind}"] = names[found.astype(np.int64)]
        answers[f"probability{behind}"] = np.where(found, columns[positive_class], columns[other])
    return answers


def _decisions(run: FinishedRun) -> dict[str, Any]:
    """{label: what the run's summary says of it}; {} for one of other labels."""
    if not (run.run_folder.folder / SUMMARY).is_file():
        return {}
    summary = run.run_folder.summary()
    return {"": summary["threshold"]} if summary.get("threshold") else dict(summary.get("thresholds", {}))
