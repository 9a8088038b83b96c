"""Sums of a round: which there are, by number, and the layout of a part of one.

A sum's number is that of its pad, too: no two kinds of messages share one. Hops of smoothing are counted on from
`HOPS`, so it is the last.
"""

from typing import Final

from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import CODES, score_bytes
from fedgraft.wire.layouts import VARIABLE, Layout, Spec

UPDATES, SCORES, STATISTICS, TALLIES, SMOOTHED_SCORES, SMOOTHED_ROWS, HOPS = range(7)
_CODED: Final = Layout((Spec(CODES, "uint8", (VARIABLE,)),))


def coded_arrays(plan: Plan) -> Layout:
    """Return the layout of a client's part in a sum."""
    return _CODED


def coded_scores(plan: Plan) -> Layout:
    """Return that layout with its size, of a client's part in a sum of scores."""
    return Layout((Spec(CODES, "uint8", (score_bytes(len(plan.task.sums)),)),))


def segment_of(kind: str, done: int = 0) -> int:
    """Return which sum of its round that of a kind of smoothing is, where so many hops are done."""
    return {"smooth": SMOOTHED_ROWS, "hop": HOPS + done, "tally": TALLIES, "smoothed": SMOOTHED_SCORES}[kind]
