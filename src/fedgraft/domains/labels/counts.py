"""Mergeable sums of a classification, and the measures that they tell."""

from functools import lru_cache
from typing import Final

import numpy as np

from fedgraft.contracts.values import Indices, Sums
from fedgraft.wire.layouts import Array

BINS: Final = 160
"""Parts of the odds in which predicted probabilities are counted: the area is exact to a thousandth or two."""
NEAR: Final = 0.01
"""Log odds against those of pure guessing, up to which parts are of equal width; beyond it they grow with the odds, so
that neither a model that knows next to nothing nor one that is sure of everything falls into a few parts."""
FAR: Final = 108.0
"""The largest there are: of the smallest float32 among a hundred classes."""


@lru_cache
def names(classes: int) -> tuple[str, ...]:
    """Return the names of the sums: right answers, examples, cross-entropy; per class true, claimed, right ones;
    and per bin of probability the classes that were an example's own and those that were not: all of them, or of two
    the second one alone."""  # noqa: D205, D209
    by_class = tuple(f"{what}_{k}" for what in ("true", "claimed", "hit") for k in range(classes))
    by_bin = tuple(f"{what}_{k}" for what in ("own", "other") for k in range(BINS))
    return ("correct", "count", "loss", *by_class, *by_bin)


def sums_of(probabilities: Array, label: Indices) -> Sums:
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
    return dict(zip(names(classes), values.tolist(), strict=True))


def measures(sums: Sums) -> dict[str, float]:
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
    """Int64 [n, classes]: the part in which each lies; larger ones are never in a lower part."""
    exact = probabilities.astype(np.float64)
    with np.errstate(divide="ignore"):
        odds = np.log(exact) - np.log1p(-exact) + np.log(max(1, probabilities.shape[1] - 1))
    part = (np.arcsinh(odds / NEAR) / np.arcsinh(FAR / NEAR) + 1) / 2 * BINS
    return np.asarray(np.clip(part, 0, BINS - 1).astype(np.int64))
