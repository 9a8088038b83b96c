"""What an answer without a model reaches: one class for all, guessing, the shares of classes."""

import math
from collections.abc import Sequence
from typing import Final

from fedgraft.contracts.task import Chance

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
