"""How a round grows with the number of clients that do not take part in it, and with the size of graphs."""

from fedgraft.methods.selectors.random import Random
from timing import in_turns, ratio
from workloads import CLIENTS, ciao_sized, federation, idle


def clients_x10(few: int = 100, repeats: int = 40) -> float:
    """Seconds of a round with ten times as many clients / seconds with `few`, ten of them training next to nothing.

    Nothing hides the growth: where clients train, it is a smaller part of a round.
    """
    plan, cohort = idle(), Random(clients=CLIENTS)
    with federation(plan, range(few), cohort) as small, federation(plan, range(10 * few), cohort) as large:
        seconds = in_turns({"small": small.round, "large": large.round}, repeats, warm_up=5)
    return ratio(seconds, "large", "small")


def nodes_x10(share: float = 1.0, repeats: int = 5) -> float:
    """Seconds of a round on graphs with ten times as many users, items, ratings and links / seconds on the small."""
    (plan, small_shards), (_, large_shards) = ciao_sized(share / 10), ciao_sized(share)
    with federation(plan, small_shards) as small, federation(plan, large_shards) as large:
        seconds = in_turns({"small": small.round, "large": large.round}, repeats)
    return ratio(seconds, "large", "small")
