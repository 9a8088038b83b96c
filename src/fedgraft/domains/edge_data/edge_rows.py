"""What the edges of a graph carry: columns, a direction, and their place in the table that they come from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Parallel
from fedgraft.errors import require


@dataclass(frozen=True, eq=False)
class EdgeRows(Parallel):
    """A row for each stored edge of a graph, in the order of its `senders`.

    An edge is stored at both of its ends that a client has: at the target it goes along, from the sender to the
    receiver, and at the source it goes back. Of an undirected graph both go along.

    Args:
        values: float32 [stored, width], columns of edges, as a model reads them.
        along: bool [stored], whether the edge goes from the sender to the receiver.
        number: int64 [stored], the edge's row in its table; both ends of an edge have the same.
        weight: float32 [stored], how many edges each stands for, finite and > 0; None where each stands for one.
        order: float64 [stored], the share of all edges that come before each, in [0, 1); None where it does not matter.
    """

    values: NDArray[np.float32]
    along: NDArray[np.bool_]
    number: Indices
    weight: NDArray[np.float32] | None = None
    order: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        stored = len(self.along)
        for key, shape, wanted in (
            ("values", self.values.shape, (stored, self.values.shape[-1])),
            ("number", self.number.shape, (stored,)),
            *([] if self.weight is None else [("weight", self.weight.shape, (stored,))]),
            *([] if self.order is None else [("order", self.order.shape, (stored,))]),
        ):
            require(shape == wanted, f"EdgeRows.{key}", f"of shape {wanted}", shape)
        require(self.values.dtype == np.float32, "EdgeRows.values", "of float32", self.values.dtype)
        if self.weight is not None and len(wrong := np.flatnonzero(~(self.weight > 0) | ~np.isfinite(self.weight))):
            allowed = "finite and above 0, as an edge of weight 0 is none"
            require(False, "EdgeRows.weight", allowed, float(self.weight[wrong[0]]))

    @property
    def width(self) -> int:
        """int, the number of columns."""
        return int(self.values.shape[1])

    def __len__(self) -> int:
        return len(self.along)


def taken(rows: EdgeRows | None, places: NDArray[np.integer] | NDArray[np.bool_]) -> EdgeRows | None:
    """Return some rows; None of a graph whose edges carry nothing."""
    return None if rows is None else rows.take(places)


def stacked_edges(parts: Sequence[EdgeRows | None]) -> EdgeRows | None:
    """Return the rows of several graphs one after another; None where their edges carry nothing."""
    there = [part for part in parts if part is not None]
    if not there:
        return None
    require(len(there) == len(parts), "Edges of clients", "with columns at all of them, or at none", len(there))
    first = there[0].width
    odd = next((part.width for part in there if part.width != first), first)
    require(odd == first, "Columns of edges", f"as many at all clients: {first}", odd)
    for key in ("weight", "order"):
        having = [getattr(part, key) is not None for part in there]
        require(len({*having}) == 1, "Edges of clients", f"with {key} at all of them, or at none", sum(having))
    return EdgeRows.stacked(there)


def both_ways(
    ends: NDArray[np.integer],
    values: NDArray[np.float32],
    nodes: int,
    directed: bool,
    weight: NDArray[np.float32] | None = None,
    order: NDArray[np.float64] | None = None,
) -> tuple[Indices, NDArray[np.int32], EdgeRows]:
    """(pointers, senders, rows) of edges as a graph stores them: each at both ends, repeats kept, by number.

    Args:
        ends: whole numbers [2, edges], source and target; no edge joins a node to itself.
        values: float32 [edges, width].
        nodes: how many there are.
        directed: whether an edge goes back at its source; else it goes along there, too.
        weight: float32 [edges], how many edges each stands for, >= 0; one of 0 is left out. None for one each.
        order: float64 [edges], as of `EdgeRows`.
    """
    kept = np.arange(ends.shape[1]) if weight is None else np.flatnonzero(weight)
    ends, count = ends[:, kept], len(kept)
    receiver = np.concatenate([ends[1], ends[0]]).astype(np.int64)
    sender = np.concatenate([ends[0], ends[1]]).astype(np.int32)
    number = np.tile(kept, 2)
    sorting = np.lexsort((number, sender, receiver))
    along = np.ones(2 * count, bool)
    along[count:] = not directed
    pointers = np.concatenate([[0], np.cumsum(np.bincount(receiver, minlength=nodes))])
    row = number[sorting]
    rows = EdgeRows(
        values[row],
        along[sorting],
        row,
        weight=None if weight is None else weight[row],
        order=None if order is None else order[row],
    )
    return pointers, sender[sorting], rows
