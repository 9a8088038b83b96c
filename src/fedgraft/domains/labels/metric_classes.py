"""Classes that a model is chosen by another measure than accuracy of, with all measures beside it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fedgraft.contracts.labels import Batches, Unit
from fedgraft.contracts.task import Chance
from fedgraft.contracts.values import Indices, Sums
from fedgraft.domains.labels import curves
from fedgraft.domains.labels.classes import Classes, chance_of, shares_of
from fedgraft.wire.layouts import Array

METRICS: Final = ("accuracy", "macro_f1", "balanced_accuracy", "auc", "average_precision", "f1", "loss")
"""Measures that a model that tells classes can be chosen by."""
DECIDING: Final = ("auc", "average_precision", "f1")
"""Those that are about the rarer of two classes: which class is answered then hangs on a threshold."""
_TINY: Final = 1e-9
"""By how much at most a smaller loss decides between equal scores."""
POINTS: Final = 200
"""Most points of a curve that a summary keeps."""


@dataclass(frozen=True)
class MetricClasses(Classes):
    """One class of several, scored by any of `METRICS`; of two classes by how well the rarer one is found.

    AUC and average precision are, of two classes, those of the rarer one; of more the means over classes, each against
    the rest, that there are examples of. F1 is that of the rarer class where what is at least as likely as a threshold
    is taken for it: the threshold with the largest F1 on validation.

    Args:
        names: of the classes.
        count: how many there are where they have no names.
        objective: as of `Classes`.
        judged: one of `METRICS`.
        positive_class: name of the rarer of two classes; "" = the one that there are fewer examples of.
        labels: how many such labels an example has, >= 1, which share the bins of probability that are counted.
    """

    judged: str = "accuracy"
    positive_class: str = ""
    labels: int = 1

    @property
    def metric(self) -> str:  # type: ignore[override]
        """As said."""
        return self.judged

    @property
    def better(self) -> str:  # type: ignore[override]
        """Lower where it is the loss."""
        return "lower" if self.judged == "loss" else "higher"

    @property
    def sums(self) -> tuple[str, ...]:
        """Right answers, examples, cross-entropy; per class true, claimed, right ones; counts by probability."""
        by_class = tuple(f"{what}_{k}" for what in ("true", "claimed", "hit") for k in range(self.width))
        return ("correct", "count", "loss", *by_class, *curves.names(self.width, self.bins))

    @property
    def bins(self) -> int:
        """How many bins of probability a class has."""
        least = curves.LEAST if self.judged in DECIDING else curves.FEWEST
        return curves.bins_of(self.width * self.labels, least)

    def sums_of(self, batches: Batches, unit: Unit) -> Sums:
        """Return the sums of some examples."""
        return self.sums_by(*shares_of(batches, self.width))

    def sums_by(self, shares: Array, label: Indices) -> Sums:
        """Return the sums by probabilities, float32 [n, classes]."""
        best, classes = shares.argmax(1), self.width
        own = shares[np.arange(len(label)), label].astype(np.float64)
        values = np.concatenate(
            [
                [(best == label).sum(), len(label), -np.log(np.maximum(own, np.finfo(np.float32).tiny)).sum()],
                *(np.bincount(each, minlength=classes) for each in (label, best, label[best == label])),
                curves.counts_of(shares, label, self.bins),
            ]
        )
        return dict(zip(self.sums, values.tolist(), strict=True))

    def score(self, sums: Sums) -> float:
        """Return the metric; F1 with the threshold that is best for these very examples."""
        return self.scores({"": sums}, sums)[""]

    def scores(self, sums: Mapping[str, Sums], chosen: Sums | None = None) -> dict[str, float]:
        """Return the metric of each split, a threshold being chosen on `chosen`, or on validation."""
        return {split: each.get(self.judged, math.nan) for split, each in self.measured(sums, chosen).items()}

    def selection_metric(self, sums: Sums) -> float:
        """Return the score; of equal ones, and where there is none for want of a class, the smaller loss is better."""
        if self.judged == "accuracy":
            return super().selection_metric(sums)
        score, loss = self.score(sums), self.mean_loss(sums)
        if self.judged == "loss" or math.isnan(loss):
            return score
        return (0.0 if math.isnan(score) else score) + _TINY / (1.0 + loss)

    def chance(self, sums: Sums) -> Chance | None:
        """Return what guessing, or one class for all, reaches."""
        return chance_of(self.judged, [sums.get(f"true_{k}", 0.0) for k in range(self.width)], self.rarer(sums))

    def measures(self, sums: Sums) -> dict[str, float]:
        """Return all measures of some examples."""
        return self.measured({"": sums}, sums)[""]

    def measured(self, sums: Mapping[str, Sums], chosen: Sums | None = None) -> dict[str, dict[str, float]]:
        """Return all measures of each split; arguments as of `scores`."""
        base = sums.get("validation", {}) if chosen is None else chosen
        positive_class, cut = self.rarer(base), self.cut(base)
        return {split: self._measured(each, positive_class, cut) for split, each in sums.items()}

    def rarer(self, sums: Sums) -> int | None:
        """Return the number of the rarer of two classes; None of more."""
        if self.width != 2:
            return None
        if self.positive_class in self.names:
            return self.names.index(self.positive_class)
        return int(sums.get("true_1", 0.0) <= sums.get("true_0", 0.0))

    def cut(self, sums: Sums) -> int | None:
        """Return the edge from which on examples are taken for the rarer class; None of more classes or no example."""
        positive_class = self.rarer(sums)
        return (
            None
            if positive_class is None or not sums.get("count")
            else curves.curves(sums, 2, self.bins)[positive_class].cut
        )

    def threshold(self, sums: Sums) -> float | None:
        """Return the probability from which on that is: of the largest F1 of these examples."""
        cut = self.cut(sums)
        return None if cut is None else curves.probability(cut, self.bins)

    def decision_threshold(self, sums: Mapping[str, Sums]) -> dict[str, Any]:
        """Return the rarer of two classes, with a threshold and a curve where it is what is judged."""
        chosen, test = sums.get("validation", {}), sums.get("test", {})
        positive_class, decides = self.rarer(chosen), self.judged in DECIDING
        if positive_class is None or not self.names or not chosen.get("count"):
            return {}
        return {
            "class": self.names[positive_class],
            "other": self.names[1 - positive_class],
            "share": chosen[f"true_{positive_class}"] / chosen["count"],
            "threshold": self.threshold(chosen) if decides else None,
            "curve": curves.curves(test, 2, self.bins)[positive_class].points(POINTS)
            if decides and test.get("count")
            else [],
        }

    def agreement(self, predicted: Array, label: Array) -> float:
        """Return the metric of predicted classes, int64 [n], or of probabilities [n, classes]."""
        return self.score(self.sums_by(self._shares(predicted), label)) if len(label) else math.nan

    def agreements(self, parts: Mapping[str, tuple[Array, Array]]) -> dict[str, float]:
        """Return the metric of each split, of (predicted, label) as of `agreement`."""
        sums = {split: self.sums_by(self._shares(guess), label) for split, (guess, label) in parts.items()}
        return self.scores(sums)

    def _shares(self, predicted: Array) -> Array:
        """Probabilities, float32 [n, classes]; of classes that are said 1."""
        if predicted.ndim == 1:
            return np.eye(self.width, dtype=np.float32)[predicted]
        missing = np.zeros((len(predicted), self.width - predicted.shape[1]), np.float32)
        return np.concatenate([predicted.astype(np.float32), missing], 1)

    def _measured(self, sums: Sums, positive_class: int | None, cut: int | None) -> dict[str, float]:
        if not sums.get("count"):
            return dict.fromkeys(
                METRICS if positive_class is not None else [name for name in METRICS if name != "f1"], math.nan
            )
        each = [tuple(sums[f"{what}_{k}"] for what in ("true", "claimed", "hit")) for k in range(self.width)]
        found = curves.curves(sums, self.width, self.bins)
        curved = found if positive_class is None else [found[positive_class]]
        measures = {
            "accuracy": sums["correct"] / sums["count"],
            "macro_f1": _mean([2 * hit / (true + claimed) for true, claimed, hit in each if true + claimed]),
            "balanced_accuracy": _mean([hit / true for true, _, hit in each if true]),
            "auc": _mean([curve.area for curve in curved]),
            "average_precision": _mean([curve.average_precision for curve in curved]),
            "loss": sums["loss"] / sums["count"],
        }
        if positive_class is None:
            return measures
        measures["f1"] = math.nan if cut is None else float(found[positive_class].scores[cut])
        at = {percent: found[positive_class].at(percent) for percent in curves.SHARES}
        precisions = {f"precision_at_{percent}": pair[0] for percent, pair in at.items()}
        return measures | precisions | {f"recall_at_{percent}": pair[1] for percent, pair in at.items()}


def _mean(values: Sequence[float]) -> float:
    """Mean of those that are there; nan without any."""
    there = [value for value in values if not math.isnan(value)]
    return sum(there) / len(there) if there else math.nan
