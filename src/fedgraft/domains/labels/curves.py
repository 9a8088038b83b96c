"""Counts by probability, class by class: mergeable, and what areas, average precision and thresholds are told by.

A class has two rows of counts, of the examples that are of it and of those that are not, by the bin in which its
probability lies. Bins are parts of the log odds, narrow near even odds and wider far from them. Of two classes the
second one alone is counted: the first one's probability is what is left.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from fedgraft.contracts.labels import Floats
from fedgraft.contracts.values import Indices, Sums
from fedgraft.wire.layouts import Array

NEAR: Final = 2.0
"""Log odds up to which bins are of about equal width; ours."""
FAR: Final = 108.0
"""The largest log odds that there are, of the smallest float32."""
ALL_BINS: Final = 4096
"""Bins of all classes together, but `LEAST` of each at least: errors of two classes stay below a thousandth."""
LEAST: Final = 160
"""Bins of a class, of however many there are, where a model is chosen by its area or its average precision."""
FEWEST: Final = 40
"""The same where these are told beside another measure: errors of areas stay below a hundredth, those of average
precision below a few; ours."""
SHARES: Final = (1, 5, 10)
"""Shares of all examples, in percent, whose precision and recall are told."""


@dataclass(frozen=True)
class Curve:
    """One class against the rest, from counts in bins of ascending probability.

    Args:
        of: float64 [bins], examples of the class.
        others: float64 [bins], those that are not.
    """

    of: Floats
    others: Floats

    @property
    def area(self) -> float:
        """Area under the ROC curve; nan unless there are both."""
        below = np.cumsum(self.others) - self.others
        pairs = self.of.sum() * self.others.sum()
        return float((self.of * (below + self.others / 2)).sum() / pairs) if pairs else float("nan")

    @property
    def average_precision(self) -> float:
        """Mean precision at each example of the class; nan without one. Within a bin both kinds are mixed evenly."""
        of, others = self.of[::-1].astype(np.int64), self.others[::-1]
        if not (total := int(of.sum())):
            return float("nan")
        bins = np.repeat(np.arange(len(of)), of)
        if np.count_nonzero(of + others) == 1:  # all alike: what guesses
            return total / float(total + others.sum())
        rank = np.arange(1, total + 1)
        within = (rank - (np.cumsum(of) - of)[bins]) / (of[bins] + 1)
        wrong = (np.cumsum(others) - others)[bins] + others[bins] * within
        return float((rank / (rank + wrong)).mean())

    @cached_property
    def claimed(self) -> tuple[Floats, Floats]:
        """Examples of the class and others from each edge on, [bins + 1] each; nothing is above the last edge."""
        each = (np.concatenate([np.cumsum(counts[::-1])[::-1], [0.0]]) for counts in (self.of, self.others))
        hit, wrong = each
        return hit, wrong

    @property
    def scores(self) -> Floats:
        """F1 where what is above an edge is taken for the class, [bins + 1]; 0 without an example of it."""
        hit, wrong = self.claimed
        total = hit + wrong + self.of.sum()
        f1: Floats = np.divide(2 * hit, total, out=np.zeros(len(hit)), where=total > 0)
        return f1

    @property
    def cut(self) -> int:
        """The edge of the largest F1: of equal ones the middle, so that it is far from examples on either side."""
        best = np.flatnonzero(self.scores == self.scores.max())
        run = best[: int(np.flatnonzero(np.diff(best, append=len(self.scores) + 1) > 1)[0]) + 1]
        return int(run[len(run) // 2])

    def at(self, percent: float) -> tuple[float, float]:
        """Precision and recall where so many percent of all examples, the likeliest, are taken for the class."""
        (hit, wrong), taken = self.claimed, percent / 100 * (self.of.sum() + self.others.sum())
        if not taken:
            return float("nan"), float("nan")
        right = float(np.interp(taken, (hit + wrong)[::-1], hit[::-1]))
        return right / taken, right / float(self.of.sum()) if self.of.sum() else float("nan")

    def points(self, most: int) -> list[tuple[float, float, float]]:
        """Recall, precision and threshold at edges that differ, at most so many, from few claims to many."""
        hit, wrong = self.claimed
        edges = np.flatnonzero(np.diff(hit + wrong, append=0.0) != 0)[::-1]
        if len(edges) > most:
            edges = edges[np.unique(np.linspace(0, len(edges) - 1, most).astype(np.int64))]
        total = max(1.0, float(self.of.sum()))
        return [
            (hit[edge] / total, hit[edge] / (hit[edge] + wrong[edge]), probability(int(edge), len(self.of)))
            for edge in edges.tolist()
        ]


@lru_cache
def names(classes: int, bins: int) -> tuple[str, ...]:
    """Return the names of the counts."""
    counted = _counted(classes)
    return tuple(f"{what}_{k}_{part}" for k in counted for what in ("of", "not") for part in range(bins))


def bins_of(classes: int, least: int = LEAST) -> int:
    """Return how many bins a class has, `least` or more; of several labels, of the classes of all."""
    return max(least, ALL_BINS // max(1, classes))


def counts_of(probabilities: Array, label: Indices, bins: int) -> Floats:
    """Return counts in the order of `names`, of probabilities, float32 [n, classes], and labels, int64 [n]."""
    classes, parts = probabilities.shape[1], []
    for k in _counted(classes):
        rest = probabilities[:, 0] if classes == 2 else 1.0 - probabilities[:, k].astype(np.float64)
        part = _part(probabilities[:, k], rest, classes, bins)
        parts += [np.bincount(part[own], minlength=bins) for own in (label == k, label != k)]
    return np.concatenate(parts).astype(np.float64)


def curves(sums: Sums, classes: int, bins: int) -> list[Curve]:
    """Return each class's curve."""
    values = np.array([sums[name] for name in names(classes, bins)]).reshape(-1, 2, bins)
    if classes == 2:
        of, others = values[0]
        return [Curve(others[::-1], of[::-1]), Curve(of, others)]
    return [Curve(of, others) for of, others in values]


def probability(edge: int, bins: int) -> float:
    """Return the probability at an edge, in [0, 1]; of the first 0, of the last more than any has."""
    if edge in (0, bins):
        return float(edge > 0)
    odds = NEAR * np.sinh((2 * edge / bins - 1) * np.arcsinh(FAR / NEAR))
    return float(1 / (1 + np.exp(-odds)))


def _counted(classes: int) -> Sequence[int]:
    return [1] if classes == 2 else range(classes)


def _part(one: Array, rest: Array, classes: int, bins: int) -> Indices:
    """Int64 [n]: the bin of each example, by the odds of a probability to the rest, against those of guessing."""
    with np.errstate(divide="ignore"):
        odds = np.log(one.astype(np.float64)) - np.log(rest.astype(np.float64)) + np.log(max(1, classes - 1))
    return _binned(odds, NEAR, bins)


def _binned(odds: Floats, near: float, bins: int) -> Indices:
    """Int64, the bin of log odds: up to `near` bins are of about equal width."""
    part = (np.arcsinh(odds / near) / np.arcsinh(FAR / near) + 1) / 2 * bins
    return np.asarray(np.clip(part, 0, bins - 1).astype(np.int64))


# --- sums of a classification, all classes pooled ---------------------------------------------------------------------

BINS: Final = 160
"""Bins of the odds of all classes: the area is exact to a thousandth or two."""
NEAR_GUESSING: Final = 0.01
"""Log odds against those of pure guessing, up to which these are of equal width; beyond it they grow with the odds, so
that neither a model that knows next to nothing nor one that is sure of everything falls into a few of them."""


@lru_cache
def sum_names(classes: int) -> tuple[str, ...]:
    """Return the names of the sums: right answers, examples, cross-entropy; per class true, claimed, right ones;
    and per bin of probability the classes that were an example's own and those that were not: all of them, or of two
    the second one alone."""  # noqa: D205, D209
    by_class = tuple(f"{what}_{k}" for what in ("true", "claimed", "hit") for k in range(classes))
    by_bin = tuple(f"{what}_{k}" for what in ("own", "other") for k in range(BINS))
    return ("correct", "count", "loss", *by_class, *by_bin)


def class_sums(probabilities: Array, label: Indices) -> Sums:
    """Return the sums of some examples, of probabilities, float32 [n, classes], and labels, int64 [n]."""
    count, classes = probabilities.shape
    best = probabilities.argmax(1)
    own = np.zeros((count, classes), bool)
    own[np.arange(count), label] = True
    bins = _bins(probabilities)
    if classes == 2:  # one class against the other, once
        own, bins = own[:, 1:], bins[:, 1:]
    likely = np.maximum(probabilities[np.arange(count), label].astype(np.float64), np.finfo(np.float32).tiny)
    values = np.concatenate(
        [
            [(best == label).sum(), count, -np.log(likely).sum()],
            np.bincount(label, minlength=classes),
            np.bincount(best, minlength=classes),
            np.bincount(label[best == label], minlength=classes),
            np.bincount(bins[own], minlength=BINS),
            np.bincount(bins[~own], minlength=BINS),
        ]
    )
    return dict(zip(sum_names(classes), values.tolist(), strict=True))


def class_measures(sums: Sums) -> dict[str, float]:
    """Accuracy; macro-F1, the mean over classes that there are or that were claimed; AUC, of two classes that of
    either, of more one class against the rest, all classes pooled."""  # noqa: D205, D209
    count = sums.get("count", 0.0)
    if not count:
        return dict.fromkeys(("accuracy", "macro_f1", "auc"), float("nan"))
    classes = sum(name.startswith("true_") for name in sums)
    each = [tuple(sums[f"{what}_{k}"] for what in ("true", "claimed", "hit")) for k in range(classes)]
    scores = [2 * hit / (true + claimed) for true, claimed, hit in each if true + claimed]
    own, other = (np.array([sums[f"{what}_{k}"] for k in range(BINS)]) for what in ("own", "other"))
    below = np.cumsum(other) - other
    pairs = own.sum() * other.sum()
    auc = float((own * (below + other / 2)).sum() / pairs) if pairs else float("nan")
    return {"accuracy": sums["correct"] / count, "macro_f1": float(np.mean(scores)), "auc": auc}


def _bins(probabilities: Array) -> Indices:
    """Int64 [n, classes]: the bin in which each lies; larger ones are never in a lower one."""
    exact = probabilities.astype(np.float64)
    with np.errstate(divide="ignore"):
        odds = np.log(exact) - np.log1p(-exact) + np.log(max(1, probabilities.shape[1] - 1))
    return _binned(odds, NEAR_GUESSING, BINS)
