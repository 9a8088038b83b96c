"""Classes: an example has one of several, int64 [n], -1 = unknown."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgraft.contracts.abilities.predicting import SHARE
from fedgraft.contracts.abilities.private import AuditedTask, Labelled
from fedgraft.contracts.labels import Batches, Labels, Unit
from fedgraft.contracts.loss import ClassObjective, ClassShares
from fedgraft.contracts.task import Chance
from fedgraft.contracts.values import SPLITS, Indices, Sums
from fedgraft.domains.labels.curves import class_measures, class_sums, sum_names
from fedgraft.wire.layouts import Array

PARTS: Final = 5
"""Parts of the list of classes whose shares a client can report: as many as ratings have grades."""
PROFILE: Final = frozenset(f"label_{k}" for k in range(PARTS))
"""Names of these shares."""


@dataclass(frozen=True)
class Classes(Labels):
    """One class of several; the score is accuracy.

    Args:
        names: of the classes; () where each client has its own.
        count: how many there are where they have no names.
        objective: the loss of training; None for the cross-entropy.
    """

    better: ClassVar[str] = "higher"
    metric: ClassVar[str] = "accuracy"
    numbers: ClassVar[None] = None

    names: tuple[str, ...] = ()
    count: int = 0
    objective: ClassObjective | None = None

    @property
    def width(self) -> int:
        """One number per class, two without any."""
        return self.count or len(self.names) or 2

    @property
    def sums(self) -> tuple[str, ...]:
        """Right answers, examples, cross-entropy."""
        return "correct", "count", "loss"

    def unit(self, label: Array) -> Unit:
        """Return the unit that changes nothing."""
        return Unit()

    def standardize(self, label: Array, unit: Unit) -> Array:
        """Return the classes as they are, int64 [n]."""
        return label

    def losses(self, outputs: Tensor, label: Tensor, shares: ClassShares | None = None) -> Tensor:
        """Return losses of training, float32 [n], of logits [n, classes]."""
        if self.objective is not None:
            return self.objective.losses(outputs, label, shares)
        return nn.functional.cross_entropy(outputs, label, reduction="none")

    def together(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return the logarithm of the mean of probabilities, float32 [n, classes]."""
        return torch.stack([each.log_softmax(1) for each in outputs]).logsumexp(0) - math.log(len(outputs))

    def sums_of(self, batches: Batches, unit: Unit) -> Sums:
        """Return right answers, examples and summed cross-entropies."""
        sums = dict.fromkeys(("correct", "count", "loss"), 0.0)
        for logits, label in batches:
            sums["correct"] += float((logits.argmax(1) == label).sum())
            sums["count"] += len(label)
            sums["loss"] += float(nn.functional.cross_entropy(logits, label, reduction="sum"))
        return sums

    def sums_by(self, shares: Array, label: Indices) -> Sums:
        """Return the sums by probabilities, float32 [n, classes]."""
        own = np.maximum(shares[np.arange(len(label)), label].astype(np.float64), np.finfo(np.float32).tiny)
        right = float((shares.argmax(1) == label).sum())
        return {"correct": right, "count": float(len(label)), "loss": float(-np.log(own).sum())}

    def score(self, sums: Sums) -> float:
        """Return the accuracy."""
        return sums.get("correct", 0.0) / sums["count"] if sums.get("count") else math.nan

    def mean_loss(self, sums: Sums) -> float:
        """Return the mean cross-entropy."""
        return sums["loss"] / sums["count"] if sums.get("count") else math.nan

    def measures(self, sums: Sums) -> dict[str, float]:
        """Return the accuracy."""
        return {self.metric: self.score(sums)}

    def selection_metric(self, sums: Sums) -> float:
        """Return the accuracy, ties broken by the smaller loss: all of it weighs less than half an example."""
        if not sums.get("count"):
            return math.nan
        return (sums["correct"] + 0.5 / (1.0 + sums["loss"] / sums["count"])) / sums["count"]

    def answers(self, outputs: Tensor, unit: Unit) -> dict[str, Array]:
        """Return the likeliest class, and how likely it and each class is."""
        names = self.names or tuple(map(str, range(outputs.shape[1])))
        return likeliest(names, outputs.softmax(1).numpy())

    def constant(self, label: Array) -> Array:
        """Return the most frequent class, int64 []; of equally frequent ones the first."""
        return np.asarray(np.bincount(label, minlength=1).argmax())

    def agreement(self, predicted: Array, label: Array) -> float:
        """Return the share of right classes; of probabilities [n, classes] the largest one counts."""
        if predicted.ndim > label.ndim:
            predicted = predicted.argmax(1)
        return float((predicted == label).mean()) if len(label) else math.nan


@dataclass(frozen=True)
class CountedClasses(Classes):
    """One class of several, with counts by class and by probability: macro-F1 and AUC beside accuracy."""

    @property
    def sums(self) -> tuple[str, ...]:
        """Right answers, examples, cross-entropy; counts for macro-F1 and AUC."""
        return sum_names(self.width)

    def sums_of(self, batches: Batches, unit: Unit) -> Sums:
        """Return the sums of some examples."""
        return self.sums_by(*shares_of(batches, self.width))

    def sums_by(self, shares: Array, label: Indices) -> Sums:
        """Return the sums by probabilities, float32 [n, classes]."""
        return class_sums(shares, label)

    def measures(self, sums: Sums) -> dict[str, float]:
        """Return accuracy, macro-F1, AUC."""
        return class_measures(sums)

    def chance(self, sums: Sums) -> Chance | None:
        """Return the share of the most frequent class."""
        return chance_of(self.metric, [sums.get(f"true_{k}", 0.0) for k in range(self.width)])


def shares_of(batches: Batches, classes: int) -> tuple[Array, Indices]:
    """Return probabilities, float32 [n, classes], and labels, int64 [n], of all batches of logits and labels."""
    parts = [(logits.softmax(1).numpy(force=True), label.numpy(force=True)) for logits, label in batches]
    nothing = (np.zeros((0, classes), np.float32), np.zeros(0, np.int64))
    shares, label = (np.concatenate(each) for each in zip(nothing, *parts, strict=True))
    return shares, label


def likeliest(classes: Sequence[str], shares: Array) -> dict[str, Array]:
    """Return columns: the likeliest class, its probability, and that of each, by float32 [asked, classes]."""
    best, shares = shares.argmax(1), shares.astype(np.float64)
    return {
        "class": np.array(classes, dtype=object)[best],
        "probability": shares[np.arange(len(best)), best],
        **{f"{SHARE}{name}": shares[:, number] for number, name in enumerate(classes)},
    }


def profile_of(label: Indices, classes: int) -> dict[str, float]:
    """Return the shares of training examples, int64 [n], in consecutive parts of the list of classes, by `PROFILE`."""
    counts = np.bincount(label * PARTS // max(1, classes), minlength=PARTS)
    return {f"label_{k}": share for k, share in enumerate((counts / max(1, len(label))).tolist())}


# --- what needs no model ----------------------------------------------------------------------------------------------

MOST, ALL, GUESSING = "the most frequent class", "one class for all", "guessing"


def chance_of(metric: str, counts: Sequence[float], positive_class: int | None = None) -> Chance | None:
    """Return what needs no model, by how many examples each class has; None without any.

    Args:
        metric: one of a model that tells classes.
        counts: [classes].
        positive_class: number of the rarer of two, of which average precision and F1 are; None for means over classes.
    """
    total = sum(counts)
    if not total:
        return None
    shares = [count / total for count in counts if count]
    most, there = max(shares), len(shares)
    found = 1 / there if positive_class is None else counts[positive_class] / total
    known: Final = {
        "accuracy": (most, MOST),
        "balanced_accuracy": (1 / there, ALL),
        "macro_f1": (2 * most / (1 + most) / there, MOST),
        "auc": (0.5, GUESSING),
        "average_precision": (found, GUESSING),
        "f1": (2 * found / (1 + found), ALL),
        "loss": (-sum(share * math.log(share) for share in shares), "saying how frequent each class is"),
    }
    return Chance(metric, *known[metric]) if metric in known else None


# --- audits -----------------------------------------------------------------------------------------------------------


class AuditedClasses(AuditedTask[Any]):
    """Of a task whose shards have one class for each example."""

    def labelled(self, shard: Any, split: str) -> Labelled:
        """Return the rows of a split, ascending."""
        rows = shard.rows(split)
        return Labelled(rows, np.asarray(shard.label)[rows].astype(np.int64), len(shard.classes))

    def marked(self, shard: Any, rows: Indices, label: Indices, trained: NDArray[np.bool_]) -> Any:
        """Return a copy with other labels and splits."""
        labels, split = shard.label.copy(), shard.split.copy()
        labels[rows], split[rows] = label, np.where(trained, SPLITS.index("train"), -1)
        return replace(shard, label=labels, split=split)
