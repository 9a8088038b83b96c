"""Mergeable sums, scores and what is read off a curve."""

import math
from collections.abc import Iterable, Mapping, Sequence

from fedgraft.contracts import Sums


def add(parts: Iterable[Mapping[str, float]]) -> Sums:
    """Add sums key by key: the sums of disjoint examples are those of their union."""
    total: Sums = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0.0) + value
    return total


def root_mean_square(squared_error: float, count: float) -> float:
    """RMSE from merged sums; nan without examples."""
    return math.sqrt(squared_error / count) if count > 0 else math.nan


def improves(score: float, best: float | None, better: str) -> bool:
    """Return whether `score` is strictly better than `best` ("lower" or "higher"); nan never is."""
    if math.isnan(score):
        return False
    if best is None or math.isnan(best):
        return True
    return score < best if better == "lower" else score > best


def first_reaching(curve: Sequence[Mapping[str, float]], target: float, better: str) -> Mapping[str, float] | None:
    """The first point of a curve whose "validation" is at least as good as `target`; None if none is."""
    for point in curve:
        score = point["validation"]
        if score is not None and (score <= target if better == "lower" else score >= target):
            return point
    return None
