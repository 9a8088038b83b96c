"""What the framework takes of a round, whatever is learnt."""

from floor import Floor
from timing import in_turns
from workloads import CLIENTS, federation, idle


def overhead_ms(repeats: int = 100) -> float:
    """Milliseconds that a round of ten clients takes beyond its training; rows and ledger are stored.

    Each client takes one step on one number, the cheapest training there is, and a bare loop of such steps is taken
    off. Fastest rounds, since whatever else a machine does only adds to a time.
    """
    plan, shards = idle(), range(CLIENTS)
    floor = Floor(plan, shards)
    with federation(plan, shards) as ours:
        seconds = in_turns({"ours": ours.round, "floor": floor.round}, repeats, warm_up=5)
    return 1000 * (min(seconds["ours"]) - min(seconds["floor"]))
