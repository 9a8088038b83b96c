"""Rows of nodes that are added up over clients: what each is told of the sum, and what it adds.

The sum has a row for each node of all boundaries. A client adds the row of each node of its own where that node's
neighbours elsewhere are, so that the server learns, for each node, the sum of its neighbours' rows and none of them;
of a node with a single neighbour elsewhere that is this neighbour's row.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.abilities.smoothing import STEPS
from fedgraft.engine.privacy.secure_sum import MOST_BITS
from fedgraft.errors import BeyondLimitError, ClientError
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout, Spec

DEGREES, PLACES, COUNTS = "sum.degrees", "sum.places", "sum.counts"
"""Names of arrays: neighbours elsewhere of each boundary node, in which rows of the sum these are, and how
many times each counts."""
ROWS, MOST = "rows", "most"
"""Names of scalars: how many rows the sum has, and how many times rows count together at one place at most."""
MOST_COUNT: Final = 255
"""How many times a row counts at most; ours."""
MOST_CODES: Final = 2**27
"""Numbers of the largest sum that a client has a part in: a gigabyte."""
PLACED: Final = Layout(
    (Spec(DEGREES, "uint32", (VARIABLE,)), Spec(PLACES, "uint32", (VARIABLE,)), Spec(COUNTS, "uint8", (VARIABLE,)))
)
"""Layout of what a client is told of the sums of rows, once. Where all count once, `COUNTS` is empty."""


def bits_of(most: int) -> int:
    """Return the bits of a number in a sum of rows that count so many times together, with its sign."""
    return max(2, (2 * STEPS * most).bit_length())


def placed(whole: sparse.csr_matrix, part: slice) -> Arrays:
    """Return what a client is told of where its rows go: arrays of `PLACED`.

    Args:
        whole: int64 [rows, rows], how many times a row (column) counts at another place (row).
        part: the client's rows.
    """
    mine = sparse.csr_matrix(whole.T)[part]
    mine.sort_indices()
    counts = mine.data if (mine.data != 1).any() else mine.data[:0]
    return {
        DEGREES: np.diff(mine.indptr).astype(np.uint32),
        PLACES: mine.indices.astype(np.uint32),
        COUNTS: counts.astype(np.uint8),
    }


def check_places(told: Arrays, rows: float, most: float, nodes: int, width: int) -> None:
    """Raise `BeyondLimitError` or `ClientError` for a sum of rows that is none, of a client that adds so many."""
    degrees, places, counts = (told[name] for name in (DEGREES, PLACES, COUNTS))
    if not (0 <= rows * width <= MOST_CODES and float(rows).is_integer()):
        raise BeyondLimitError(f"a sum of {rows:g} rows of {width} numbers, of which {MOST_CODES} are the most")
    if not (most >= 0 and float(most).is_integer() and bits_of(int(most)) <= MOST_BITS):
        raise BeyondLimitError(f"rows that count {most:g} times: numbers of a sum may have {MOST_BITS} bits at most")
    if len(degrees) != nodes or int(degrees.sum(dtype=np.int64)) != len(places):
        raise ClientError(f"{len(places)} places for {len(degrees)} rows, of a boundary of {nodes} nodes")
    if len(counts) not in (0, len(places)) or int(places.max(initial=0)) >= max(rows, 1):
        raise ClientError(f"places beyond the sum's {rows:g} rows, or other counts than places")


def at_places(told: Arrays, rows: int, added: Array) -> NDArray[np.int64]:
    """Return int64 [rows, width], what a client adds: its rows, int8 [b, width], where `told` has them counted."""
    counts = told[COUNTS].astype(np.int64) if len(told[COUNTS]) else np.ones(len(told[PLACES]), np.int64)
    pointers = np.concatenate([np.zeros(1, np.int64), np.cumsum(told[DEGREES], dtype=np.int64)])
    matrix = sparse.csr_matrix((counts, told[PLACES].astype(np.int64), pointers), shape=(len(added), rows))
    made: NDArray[np.int64] = matrix.T @ added.astype(np.int64)
    return made
