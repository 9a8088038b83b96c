"""What a task of ratings has clients tell of their users before training."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from fedgraft.contracts import SPLITS, Indices
from fedgraft.contracts.abilities.private import CountedTask
from fedgraft.contracts.abilities.tasks import SummedTask
from fedgraft.domains.ratings import shared_user_statistics as users_elsewhere
from fedgraft.domains.ratings import summed_user_statistics as summed_users
from fedgraft.domains.ratings.features import Known
from fedgraft.domains.ratings.shards import UNNUMBERED, RatingShard, label_shares
from fedgraft.domains.ratings.shared_user_statistics import CODES, RemoteRatings
from fedgraft.wire.layouts import Arrays, Layout

SUMS: Final = "sums"
"""What is shared where clients add up how users rate."""
LABEL_BINS: Final = 5
"""Equal parts of the rating scale whose shares a client can report: the paper's data have five grades."""


@dataclass(frozen=True)
class TellingUsers(SummedTask[RatingShard], CountedTask[RatingShard]):
    """Of a task with the options of `Rating`: how users rate at each client, or at all."""

    units: ClassVar[tuple[str, ...]] = summed_users.UNITS
    summed_by: ClassVar[str] = f"task.share = {SUMS!r}"
    reach: ClassVar[int] = summed_users.REACH

    user_shrinkage: float
    item_shrinkage: float
    share: str
    share_least: int
    centre: float
    users: int

    @property
    def statistics_layout(self) -> Layout:
        """Users' bits and codes if they are shared."""
        return users_elsewhere.PUBLISHED if self.share in CODES else Layout(())

    def statistics(self, shard: RatingShard) -> Arrays:
        """Which users the client has, and how they rate here."""
        code = CODES.get(self.share)
        return users_elsewhere.publish(self.known(shard, shard.rows("train")), code) if code else {}

    def check(self, statistics: Arrays) -> None:
        """One code per user named."""
        users_elsewhere.check(statistics, CODES[self.share])

    @property
    def summed_layout(self) -> Layout:
        """Two numbers for each user, if they are added up."""
        return summed_users.summed_layout(max(1, self.users)) if self.share == SUMS else Layout(())

    def summed(self, shard: RatingShard, unit: str, longest: float) -> Arrays:
        """How high the client's users rate, and how often."""
        known = self.known(shard, shard.rows("train"))
        return {"ratings": summed_users.summed(known, self.users, self.centre, unit, longest)}

    def units_of(self, shard: RatingShard, unit: str) -> list[Indices]:
        """Return each training rating by itself, or those of each user."""
        rows = shard.rows("train")
        if unit != "user":
            return [*rows[:, None]]
        order = rows[np.argsort(shard.user[rows], kind="stable")]
        ends = np.flatnonzero(np.diff(shard.user[order])) + 1
        return np.split(order, ends) if len(order) else []

    def left_out(self, shard: RatingShard, rows: Indices) -> RatingShard:
        """Return the shard with some ratings in no split."""
        split = shard.split.copy()
        split[rows] = len(SPLITS)
        return replace(shard, split=split)

    def from_sum(self, total: Arrays, unit: str, longest: float, noise: float) -> Arrays:
        """Return the sums of all clients."""
        return summed_users.from_sum(total["ratings"], unit, longest, noise)

    @property
    def combined_layout(self) -> Layout:
        """`Layout` of a code for each user, or of the sums of all."""
        if self.share == SUMS:
            return summed_users.combined_layout(max(1, self.users))
        return users_elsewhere.ANSWERED if self.share in CODES else Layout(())

    def combine(self, statistics: Mapping[int, Arrays]) -> dict[int, Arrays]:
        """Return how each client's users rate at the others."""
        return users_elsewhere.combine(statistics, self.share_least, CODES[self.share])

    def fewest(self, shard: RatingShard, told: frozenset[str]) -> int:
        """Return how many training ratings the user has that has fewest; else how many lie in a part of the scale."""
        rows = shard.rows("train")
        shares = label_shares(shard, rows, LABEL_BINS)
        counts = np.bincount(shard.user[rows]) if "users" in told else np.rint(np.array(shares) * len(rows))
        return int(counts[counts > 0].min()) if len(rows) else 0

    def known(self, shard: RatingShard, rows: Indices) -> Known:
        """Return some of a client's ratings, and what follows from them."""
        return Known(shard, rows, self.user_shrinkage, self.item_shrinkage)

    def elsewhere(self, shard: RatingShard, shared: Arrays) -> RemoteRatings | None:
        """Return what is known of the client's users elsewhere; None if nothing is shared."""
        if self.share == "nothing":
            return None
        known = self.known(shard, shard.rows("train"))
        if self.share == SUMS:
            numbered = shard.users.min(initial=0) != UNNUMBERED
            if not shared or not numbered:
                return RemoteRatings.nothing(known.users)
            return summed_users.understand(known, shared, self.centre)
        return users_elsewhere.understand(known, shared.get("codes", np.zeros(0, np.uint8)), CODES[self.share])
