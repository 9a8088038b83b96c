"""Classes as a page shows them: how well each is told, and what it is taken for; or why that is not shown."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.abilities.predicting import PredictingTask
from fedgraft.errors import FedgraftError, InputError
from fedgraft.experiment.predicting.predict import threshold_of
from fedgraft.experiment.predicting.site_run import load_run
from fedgraft.experiment.running.baseline_scores import RATE
from fedgraft.experiment.storage.data_notes import without_notes
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.reports.stored.seed_groups import SCORE, Group
from fedgraft.reports.stored.stored_runs import StoredRun

Counts = NDArray[np.int64]
LOG = logging.getLogger("fedgraft.report")
MOST_SECONDS = 60.0
"""What a page may take for them, as estimated, where nobody asked for them."""
EXAMPLE_SECONDS, CLIENT_SECONDS = 1e-3, 0.02
"""What the estimate counts on for loading an example and a client, beside operations as in a round."""
MOST_CLASSES = 20
"""Classes that are shown; of more those that are confused most."""
ROUNDING = 5e-5
"""By how much shown accuracies differ at least where they are not the same."""
OTHERS = "others"
_LONG = "it may take more than a minute"
_GONE = "its data are not here as the run had them"


@dataclass(frozen=True)
class ClassScore:
    """How well one class is told.

    Args:
        name: of the class.
        count: test examples of it.
        precision: share of what was taken for it that is of it, in [0, 1]; nan where nothing was.
        recall: share of it that was taken for it, in [0, 1]; nan where there is none of it.
        f1: their harmonic mean; nan where there is none of it and nothing was taken for it.
    """

    name: str
    count: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, eq=False)
class Confusion:
    """Counts of pairs of what test examples are and what they are taken for.

    Args:
        classes: names.
        counts: int64 [is, taken for].
    """

    classes: tuple[str, ...]
    counts: Counts

    @property
    def examples(self) -> int:
        """int, test examples."""
        return int(self.counts.sum())

    @property
    def accuracy(self) -> float:
        """Share that is taken for what it is; nan without examples."""
        return float(self.counts.trace() / self.examples) if self.examples else float("nan")

    @property
    def scores(self) -> list[ClassScore]:
        """One for each class."""
        hit, true, predicted = np.diag(self.counts), self.counts.sum(1), self.counts.sum(0)
        with np.errstate(invalid="ignore"):
            measures = (hit / predicted, hit / true, 2 * hit / (true + predicted))
        columns = zip(self.classes, true.tolist(), *(each.tolist() for each in measures), strict=True)
        return [ClassScore(*each) for each in columns]

    def most_confused(self, most: int) -> list[int]:
        """Return places of at most so many classes, ascending: those with most wrong answers, of or for them."""
        wrong = self.counts.sum(0) + self.counts.sum(1) - 2 * np.diag(self.counts)
        return sorted(np.argsort(-wrong, kind="stable")[:most].tolist())


def added(parts: Sequence[Confusion]) -> Confusion:
    """Return the sum of counts, classes joined by their names, in the order in which they are first met."""
    names = tuple(dict.fromkeys(name for part in parts for name in part.classes))
    counts = np.zeros((len(names), len(names)), np.int64)
    for part in parts:
        places = [names.index(name) for name in part.classes]
        np.add.at(counts, np.ix_(places, places), part.counts)
    return Confusion(names, counts)


def confusion_of(
    run_folder: RunFolder, data_root: Path | None = None, allow_changed_data: bool = False
) -> Confusion | None:
    """Return the counts of all clients' test examples, as the run's model answers now; its data are loaded again.

    Where the data are, and whether they may have changed, is said as to `load_run`.

    Returns:
        None for a task that tells no classes. Raises `InputError` where the data are not here or have changed.
    """
    run = load_run(run_folder, data_root, allow_changed_data)
    if (task := run.plan.task.ability(PredictingTask)) is None:
        return None
    parts, threshold = [], threshold_of(run)
    for client, shard in enumerate(run.shards):
        answers = task.classified(run.client_model(client), shard, run.prepared(client), run.memory(client))
        if answers is None:
            return None
        answers = answers.decided(*threshold) if threshold else answers
        counts = np.zeros((len(answers.classes), len(answers.classes)), np.int64)
        np.add.at(counts, (answers.label, answers.answer), 1)
        parts.append(Confusion(tuple(map(str, answers.classes)), counts))
    if not parts:
        raise InputError(f"{run_folder.folder}: there are no clients whose data could be loaded.")
    return added(parts)


@dataclass(frozen=True)
class MatrixRow:
    """A row of the matrix: what examples are, and (count, share of the row in [0, 1]) of what they are taken for.

    The share of `OTHERS` taken for each other is 0.
    """

    name: str
    cells: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class ClassPart:
    """The classes of one run, or of the runs of a group together, with a sentence or two; or why they are missing.

    The matrix has a row for each class, and one for `OTHERS`.
    """

    name: str
    missing: str = ""
    text: str = ""
    scores: tuple[ClassScore, ...] = ()
    matrix: tuple[MatrixRow, ...] = ()


def class_parts(
    groups: Sequence[Group], wanted: bool | None, data_root: Path | None = None, allow_changed_data: bool = False
) -> list[ClassPart]:
    """Return the classes of each run or group whose task tells any; the data are loaded as by `load_run`.

    Where it is not said whether they are `wanted`, they are shown if that takes less than `MOST_SECONDS` for all of
    them, and the data are here. Raises `InputError` where they are wanted and the data are gone.
    """
    if wanted is False:
        return []
    shown, spent = [], 0.0
    for group in groups:
        if not any(map(_has_classes, group.runs)):
            continue
        cost = sum(map(_seconds, group.runs))
        if wanted is None and spent + cost > MOST_SECONDS:
            shown.append(ClassPart(group.label, f"{_LONG}; --classes shows them"))
            continue
        spent += cost
        try:
            with without_notes():
                parts = [confusion_of(run.run_folder, data_root, allow_changed_data) for run in group.runs]
        except (FedgraftError, OSError) as error:
            if wanted:
                raise
            LOG.info("%s: %s", group.label, error)
            shown.append(ClassPart(group.label, f"{_GONE}; --classes says why"))
            continue
        if known := [part for part in parts if part is not None]:
            shown.append(_part(group, added(known)))
    return shown


def _has_classes(run: StoredRun) -> bool:
    """Return whether a run may be one that tells classes."""
    data = run.summary["data"]
    return bool(data and data["classes"]) or run.metric == "accuracy"


def _seconds(run: StoredRun) -> float:
    """Return an estimate of what it takes, from counts alone; infinite where they are not told."""
    if (data := run.summary["data"]) is None:
        return math.inf
    rows, operations = data["clients"], run.summary["flops"] or 0
    examples = sum(row["train"] + row["validation"] + row["test"] for row in rows)
    rounds: int = max(1, run.summary["selections"])
    seconds: float = EXAMPLE_SECONDS * examples + len(rows) * (CLIENT_SECONDS + operations / rounds / RATE)
    return seconds


def _part(group: Group, confusion: Confusion) -> ClassPart:
    kept = confusion.most_confused(MOST_CLASSES)
    text = f"Answers to {confusion.examples:,} test examples by the model that was best on validation"
    text += f", of {len(group.runs)} seeds together" if len(group.runs) > 1 else ""
    text += f": accuracy {confusion.accuracy:.4f}."
    if (decision := group.runs[0].summary.get("threshold")) and decision["threshold"] is not None:
        text += f" {decision['class']!r} is answered from a probability of {decision['threshold']:.4f} on"
        text += f", which had the largest F1 on validation.{_among_few(group.runs[0])}"
    score = group.runs[0].summary[SCORE] if group.runs[0].metric == "accuracy" and len(group.runs) == 1 else None
    if score is not None and abs(score - confusion.accuracy) > ROUNDING:
        text += f" The run itself was scored {score:.4f}, with what its clients had told each other then."
    if len(kept) < len(confusion.classes):
        text += f" Shown are the {len(kept)} of {len(confusion.classes)} classes that are confused most."
    scores = tuple(confusion.scores[place] for place in kept)
    return ClassPart(group.label, "", text, scores, _matrix(confusion, kept))


def _among_few(run: StoredRun) -> str:
    """Say how many of the likeliest examples of a run are of the rarer class; "" where it is not told."""
    shares = [
        (percent, precision, recall)
        for percent in (1, 5, 10)
        if (precision := run.measures.get(f"precision_at_{percent}")) is not None
        and (recall := run.measures.get(f"recall_at_{percent}")) is not None
    ]
    if not shares:
        return ""
    (percent, precision, recall), *others = shares
    first = f" Of the likeliest {percent} % of examples {precision:.1%} are of it, {recall:.1%} of all that are"
    return "; ".join([first, *(f"of {share} % {right:.1%}, {of_all:.1%}" for share, right, of_all in others)]) + "."


def _matrix(confusion: Confusion, kept: Sequence[int]) -> tuple[MatrixRow, ...]:
    others = [place for place in range(len(confusion.classes)) if place not in kept]
    blocks = [[place] for place in kept] + ([others] if others else [])
    rows = []
    for block in blocks:
        counts = [int(confusion.counts[block][:, other].sum()) for other in blocks]
        total = max(1, sum(counts))
        pairs = zip(counts, blocks, strict=True)
        shares = [0.0 if block is others and other is others else count / total for count, other in pairs]
        name = OTHERS if block is others else confusion.classes[block[0]]
        rows.append(MatrixRow(name, tuple(zip(counts, shares, strict=True))))
    return tuple(rows)
