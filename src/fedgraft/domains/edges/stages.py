"""When an edge may be heard of: stages of the order of edges, and who sees which.

Rules:
    Order     each edge has a place in [0, 1), the share of all edges before it. With times it is by time, and edges of
              one time have one place; else it is drawn.
    Split     the first 64 % train, the next 16 % are for validation, the last 20 % for test.
    Stages    those that train are cut into windows of equal shares, 0, 1 ...; then come validation, test, and what is
              asked after the run. An edge is scored by messages of other stages.
    With times      a stage sees the stages before it, and no other: no message comes from the future.
    Without times   a window sees the other windows, validation and test see all windows; what is asked sees all edges.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices

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
