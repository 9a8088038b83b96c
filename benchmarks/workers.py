"""Two worker processes against one."""

import multiprocessing as mp

from timing import in_turns, ratio
from workloads import ciao_sized, federation


def two_over_one(share: float = 1.0, repeats: int = 7) -> float:
    """Seconds of a round with two workers / seconds with one; both start, and prepare their data, beforehand.

    Needs two free cores; `free_cores` tells whether there are.
    """
    plan, shards = ciao_sized(share)
    with federation(plan, shards, workers=1) as one, federation(plan, shards, workers=2) as two:
        # A client may move from one worker to the other in the first rounds, which then prepares its data.
        seconds = in_turns({"one": one.round, "two": two.round}, repeats, warm_up=3)
    return ratio(seconds, "two", "one")


def free_cores(steps: int = 10**7, repeats: int = 7) -> float:
    """Seconds that two processes take to count / seconds that one takes for the same: what the machine has left.

    0.5 on two free cores, up to 1 where others keep them busy; no federation can do better.
    """
    context = mp.get_context("spawn")
    with context.Pool(1) as one, context.Pool(2) as two:
        jobs = [steps, steps]
        variants = {
            "one": lambda _: one.map(_count, jobs, chunksize=1),
            "two": lambda _: two.map(_count, jobs, chunksize=1),
        }
        seconds = in_turns(variants, repeats)
    return ratio(seconds, "two", "one")


def _count(steps: int) -> int:
    return sum(range(steps))
