"""Where a request belongs in a run: what a node answers once, how often a kind is answered, and in which rounds."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, TypeAlias

from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.halo_sums import segment_of
from fedgraft.engine.privacy.secure_sum import SCORES, UPDATES

Place: TypeAlias = tuple[str, int, int]
"""Kind of a request, its round, and which segment, layer or stage it is about; or a sum (`SUM`), its round and pad."""
SUM: Final = "sum"
ONCE: Final = ("hello", "publish", "border", "smooth")
"""Kinds of requests that are answered once in a run, whatever round they name."""
ANEW: Final = ("border", "smooth")
"""Those of them that a run which was given more rounds asks for anew, where nothing is masked and nothing is noise."""
TRAINING: Final = ("probe", "trial", "train", "alone")
"""Kinds of requests that belong to a round of training."""
_SMOOTHED: Final = ("smooth", "hop", "tally", "smoothed")


@dataclass(frozen=True)
class Places:
    """Places of the requests of a plan.

    Args:
        rounds: of the run; 0 = not known.
        added: whether replies are masked or hold noise.
        masked: whether they are masked.
        noised: kinds of replies that hold noise.
        hops: requests of kind "hop" that have no number, in a round.
        queries: different requests of one kind that a round has.
        smoothing: hops of the plan's smoothing.
    """

    rounds: int = 0
    added: bool = False
    masked: bool = False
    noised: frozenset[str] = frozenset()
    hops: int = 0
    queries: int = 1
    smoothing: int = 0

    @classmethod
    def of(cls, plan: Plan, noised: Collection[str]) -> "Places":
        """Return those of a plan.

        Of two requests of one sum, whose keys and noise are functions of the round, the second could undo the first.
        """
        masked = plan.secure_sum.masked
        added = masked or plan.privacy.active
        hops = 1 if plan.secure_sum.active else plan.hop_kinds.count("hop")  # those of sums have numbers
        queries = 1 if added else plan.policy.queries_per_round
        smoothing = plan.smoothing_hops if plan.smoothing else 0
        return cls(plan.rounds, added, masked, frozenset(noised), hops, queries, smoothing)

    def taken(self, kind: str, round: int, number: int) -> list[Place]:
        """Return the places that a request takes, at least one: its own, and that of the sum that it adds to."""
        once = kind in ONCE and (self.added or kind not in ANEW)
        own = (kind, 0, 0) if once else (kind, round, number)
        pad = self._pad(kind, number) if self.masked else None
        return [own] if pad is None else [own, (SUM, round, pad)]

    def _pad(self, kind: str, number: int) -> int | None:
        """Which sum of its round a request adds to; None for none."""
        if kind in ("train", "publish"):
            return UPDATES
        if kind == "evaluate":
            return SCORES
        if kind not in _SMOOTHED:
            return None
        done = {"smooth": 0, "hop": number}.get(kind, self.smoothing)
        return segment_of(kind, self.smoothing, done)

    def most(self, place: Place) -> int:
        """Return how many different requests of a place are answered."""
        kind = place[0]
        if kind == SUM or (kind in ONCE and place[1:] == (0, 0)):
            return 1
        return (self.hops if kind == "hop" else 1) * self.queries

    def outside(self, kind: str, round: int) -> str:
        """Return why a round is none of the run; "" where it is one."""
        if kind not in TRAINING or (round >= 1 and (not self.rounds or round <= self.rounds)):
            return ""
        return f"round {round} is none of the run: {kind!r} has rounds 1 to {self.rounds or 'the last'}"

    def most_noised(self, kind: str) -> int:
        """Return how many replies of a kind with noise a run has; 0 = not known."""
        return self.rounds if kind == "train" else 1

    def counts(self, kind: str) -> bool:
        """Return whether an error in place of a reply of this kind counts as the reply."""
        return kind in self.noised or (self.masked and self._pad(kind, 0) is not None)
