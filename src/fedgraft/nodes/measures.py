"""Mergeable sums of a classification, and the measures that they tell."""

from functools import lru_cache

import numpy as np

from fedgraft.types import Array
from fedgraft.values import Indices, Sums

BINS = 100
"""Equal parts of [0, 1] in which predicted probabilities are counted: the area is exact to about a thousandth."""


@lru_cache
def names(classes: int) -> tuple[str, ...]:
    """What is summed: right answers, examples, cross-entropy; per class true, claimed and rightly claimed examples;
    and per bin of probability the classes that were an example's own and those that were not."""  # noqa: D205, D209
    by_class = tuple(f"{what}_{k}" for what in ("true", "claimed", "hit") for k in range(classes))
    by_bin = tuple(f"{what}_{k}" for what in ("own", "other") for k in range(BINS))
    return ("correct", "count", "loss", *by_class, *by_bin)


def sums_of(probabilities: Array, label: Indices) -> Sums:
    """Sums of some examples.

    Args:
        probabilities: float32 [n, classes].
        label: int64 [n].
    """
    count, classes = probabilities.shape
    best = probabilities.argmax(1)
    own = np.zeros((count, classes), bool)
    own[np.arange(count), label] = True
    bins = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
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
    return dict(zip(names(classes), values.tolist(), strict=True))


def measures(sums: Sums) -> dict[str, float]:
    """Accuracy; macro-F1, the mean over classes that there are; AUC of class against class, all classes pooled."""
    count = sums.get("count", 0.0)
    if not count:
        return dict.fromkeys(("accuracy", "macro_f1", "auc"), float("nan"))
    classes = sum(name.startswith("true_") for name in sums)
    each = [tuple(sums[f"{what}_{k}"] for what in ("true", "claimed", "hit")) for k in range(classes)]
    scores = [2 * hit / (true + claimed) for true, claimed, hit in each if true]
    own, other = (np.array([sums[f"{what}_{k}"] for k in range(BINS)]) for what in ("own", "other"))
    below = np.cumsum(other) - other
    pairs = own.sum() * other.sum()
    auc = float((own * (below + other / 2)).sum() / pairs) if pairs else float("nan")
    return {"accuracy": sums["correct"] / count, "macro_f1": float(np.mean(scores)), "auc": auc}
