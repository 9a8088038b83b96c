"""Bring the times of all clients' edges into one order; no client tells the time of a single edge.

A client publishes the mean times of groups of its edges, and how many are in each. All of them make one function of
time that rises from 0 to 1: about the share of all edges before it. As it rises, the later of two edges has the larger
place, so that who is before whom is exact.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.labels import Floats
from fedgraft.contracts.values import Indices
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Tree

GROUPS: Final = 100
"""Groups of edges whose mean times a client tells, at most."""
KNOTS: Final = 128
"""Times whose places are stored, at most; between two of them places are on a straight line."""


def told_times(time: NDArray[np.float64], least: int) -> dict[str, Tree]:
    """Return what a client publishes of the times of its edges: nothing that fewer than `least` edges are behind."""
    groups = np.array_split(np.sort(time), min(GROUPS, len(time) // least)) if len(time) >= least else []
    return {
        "mean": np.array([group.mean() for group in groups], np.float64),
        "count": np.array([len(group) for group in groups], np.uint32),
    }


def agreed_order(told: Sequence[Any]) -> dict[str, list[float]]:
    """Return the knots of the function: {"times": ascending, "places": of each, ascending, in (0, 1)}.

    Raises `InputError` for what no client can have published, and where no client has enough edges.
    """
    for client, each in enumerate(told):
        _check(each, client)
    mean = np.concatenate([np.zeros(0), *(each["mean"] for each in told)])
    count = np.concatenate([np.zeros(0), *(each["count"].astype(np.float64) for each in told)])
    if not len(mean):
        raise InputError(
            "data.time: every client has fewer edges than data.min_examples, so nobody tells of times; lower it, or "
            "leave data.time out."
        )
    order = np.argsort(mean, kind="stable")
    mean, count = mean[order], count[order]
    share = (np.cumsum(count) - count / 2) / count.sum()
    group = np.floor(share * KNOTS)
    first = np.flatnonzero(np.diff(group, prepend=-1.0))
    weight = np.add.reduceat(count, first)
    times, at = np.unique(np.add.reduceat(mean * count, first) / weight, return_inverse=True)
    weight = np.bincount(at, weight)
    places = (np.cumsum(weight) - weight / 2) / weight.sum()
    return {"times": times.tolist(), "places": places.tolist()}


def places_of(time: NDArray[np.float64], times: Sequence[float], places: Sequence[float]) -> Floats:
    """Return the place of each time, float64 [n] in [0, 1), by the knots; beyond the last ones it slowly nears 0 and 1.

    There it goes by a logarithm, so that times far off have places of their own, too.
    """
    known, at = np.array(times), np.array(places)
    unit = float(known[-1] - known[0]) / max(1, len(known) - 1) or 1.0
    before, after = (np.log1p(np.maximum(off, 0) / unit) for off in (known[0] - time, time - known[-1]))
    found = np.asarray(np.interp(time, known, at), np.float64)
    found = np.where(before > 0, at[0] / (1 + before), found)
    found = np.where(after > 0, at[-1] + (1 - at[-1]) * (after / (1 + after)), found)
    return np.asarray(np.minimum(found, np.nextafter(1.0, 0.0)), np.float64)


def _check(told: Any, client: int) -> None:
    try:
        mean, count = told["mean"], told["count"]
        sound = (
            mean.dtype == np.float64
            and count.dtype == np.uint32
            and mean.shape == count.shape == (len(mean),)
            and len(mean) <= GROUPS
            and bool(np.isfinite(mean).all() and (count > 0).all())
        )
    except (KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise InputError(f"Client {client} has published something that is no mean times of groups of edges.")


# --- stages -----------------------------------------------------------------------------------------------------------


TRAIN: Final = 0.64
"""Share of edges that train."""
SCORED: Final = 0.80
"""Share of edges that train or are for validation."""
EVER: Final = -1.0
"""Place of what is before all edges: that two nodes are copies of one, which every stage sees."""


def order_of(time: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the place of each edge among all, float64 [edges] in [0, 1), by its time, float64 [edges]."""
    return np.searchsorted(np.sort(time), time, side="left") / max(1, len(time))


def split_of(order: NDArray[np.float64]) -> NDArray[np.int8]:
    """Return int8 [edges], index into `SPLITS`, by places."""
    return np.asarray((order >= TRAIN).astype(np.int8) + (order >= SCORED).astype(np.int8), np.int8)


def stage_of(order: NDArray[np.float64], windows: int) -> Indices:
    """Return the stage of each edge, int64 [edges], by places; from 1 on it is what is asked after the run."""
    window = np.minimum((order / TRAIN * windows).astype(np.int64), windows - 1)
    return np.select([order < TRAIN, order < SCORED, order < 1], [window, windows, windows + 1], windows + 2)


def stages(windows: int) -> int:
    """Return how many stages there are: windows, validation, test, what is asked later."""
    return windows + 3


def sees(stage: int, other: Indices, windows: int, is_timed: bool) -> NDArray[np.bool_]:
    """Return whether edges of other stages, int64 [edges], carry messages for one stage, bool [edges]."""
    if is_timed or stage > windows + 1:
        return np.asarray(other < stage)
    return np.asarray((other < windows) & (other != stage))
