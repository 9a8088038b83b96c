"""Rows sorted by who they belong to, so that each one's are found without a look at all others'."""

import numpy as np

from fedgraft.contracts.values import Indices


def by_key(key: Indices, keys: int) -> tuple[Indices, Indices]:
    """Return rows in the order of their keys, ties in their own, and where each key's begin.

    Args:
        key: int64 [n], of each row, in 0..keys-1.
        keys: how many there are, of which some may have no row.

    Returns:
        int64 [n], numbers of rows; int64 [keys + 1], of which the last is n.
    """
    starts = np.zeros(keys + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=keys), out=starts[1:])
    return np.argsort(key, kind="stable"), starts
