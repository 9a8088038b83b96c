"""Two worker processes against one."""

from timing import in_turns, ratio
from workloads import ciao_sized, federation


def two_over_one(share: float = 1.0, repeats: int = 7) -> float:
    """Seconds of a round with two workers / seconds with one; both start, and prepare their data, beforehand.

    Needs two free cores: a third process that computes takes its part of one of them.
    """
    plan, shards = ciao_sized(share)
    with federation(plan, shards, workers=1) as one, federation(plan, shards, workers=2) as two:
        # Until a client has been served by both workers, one of them may still have to prepare its data.
        seconds = in_turns({"one": one.round, "two": two.round}, repeats, warm_up=2)
    return ratio(seconds, "two", "one")
