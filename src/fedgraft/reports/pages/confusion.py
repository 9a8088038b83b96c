"""Count which classes a run's model takes test examples for, and the measures that these counts tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.abilities.classifying import ClassifyingTask
from fedgraft.errors import InputError
from fedgraft.experiment.predicting.site_run import load_run
from fedgraft.experiment.predicting.thresholds import threshold_of
from fedgraft.experiment.storage.run_folder import RunFolder

Counts = NDArray[np.int64]


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
    task = run.plan.task
    if not isinstance(task, ClassifyingTask):
        return None
    parts, threshold = [], threshold_of(run)
    for client, shard in enumerate(run.shards):
        answers = task.classified(run.client_model(client), shard, run.prepared(client), run.memory(client))
        answers = answers.decided(*threshold) if threshold else answers
        counts = np.zeros((len(answers.classes), len(answers.classes)), np.int64)
        np.add.at(counts, (answers.label, answers.answer), 1)
        parts.append(Confusion(tuple(map(str, answers.classes)), counts))
    if not parts:
        raise InputError(f"{run_folder.folder}: there are no clients whose data could be loaded.")
    return added(parts)
