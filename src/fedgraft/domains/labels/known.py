"""What an array of labels tells of itself: which are known, and groups that a split or a partition goes by.

Classes are int64, -1 = unknown; numbers are float64, nan = unknown.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices

GROUPS: Final = 5
"""Groups of equal size that numbers are cut into where a split or a partition goes by class; ours."""


def is_known(label: Any) -> NDArray[np.bool_]:
    """Return which labels are known, bool [n] or [n, labels] as they are: a class other than -1, or a number."""
    return np.asarray(np.isfinite(label) if label.dtype.kind == "f" else label >= 0)


def groups_of(label: Any) -> Indices:
    """Return the group of each example that a split or a partition goes by, int64 [examples]; -1 without a label.

    Classes are their own groups; numbers are cut into `GROUPS` of equal size. Of several labels the first one counts.
    """
    if label.ndim > 1:
        label = label[:, 0]
    if label.dtype.kind != "f":
        return np.asarray(label)
    known = np.isfinite(label)
    if not known.any():
        return np.full(len(label), -1)
    bounds = np.quantile(label[known], np.arange(1, GROUPS) / GROUPS)
    return np.where(known, np.searchsorted(bounds, label), -1).astype(np.int64)


def numbers_hint(task: str) -> str:
    """How an error ends where numbers are given to a `task` of classes."""
    return f" Numbers are for the task '{task}_regression': fedgraft run {task}_regression ..."


def classes_hint(task: str) -> str:
    """How an error ends where classes are given to the regression beside a `task`."""
    return f" Classes are for the task {task!r}: fedgraft run graft_{task} ..."
