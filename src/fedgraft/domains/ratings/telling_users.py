"""What a task of ratings has clients tell of their users before training.

With `SUMS`, numbers of users are added up over clients: nobody learns who has whom, nor how anybody rates at one.

A client adds two numbers for each user of the ids that clients have in common: by how much its ratings are above a
point of the scale that all know, and how many they are. All get the two sums, and each takes its own part away. A
rating's part is no longer than 1, so that noise can hide it, and depends on no other rating.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import SPLITS, Indices
from fedgraft.contracts.abilities.private import CountedTask
from fedgraft.contracts.abilities.tasks import SummedTask
from fedgraft.domains.ratings import shared_user_statistics as users_elsewhere
from fedgraft.domains.ratings.features import Known
from fedgraft.domains.ratings.shards import UNNUMBERED, RatingShard, label_shares
from fedgraft.domains.ratings.shared_user_statistics import CODES, SPREAD, RemoteRatings
from fedgraft.errors import WireError
from fedgraft.wire.layouts import Arrays, Layout, Spec

Floats = NDArray[np.float64]

UNITS: Final = ("rating", "user")
"""What noise can hide: one rating, or all that a user gave at one client."""
_KNOWN: Final = (*UNITS, "")
REACH: Final = 2
"""Numbers that one rating, or one user of a client, changes."""
HEIGHT, COUNT = 0.8, 0.6
"""Of a rating's part: the first number of the most height that is told, and the second of all; so its length is 1."""
MOST: Final = 0.25
"""The most height that is told, as a share of the scale's width: one star of five."""
VARIANCE: Final = 0.7
"""Of a rating around its user's mean, in squares of the most height: about that of Ciao."""
_FINE: Final = 16.0
"""Parts of 1 that sums are told in."""
_MADE: Final = 2.0**16
"""Parts of 1 that lengths and noise are told in."""
_LONGEST: Final = 2.0**14
"""Most of these."""


def summed_layout(users: int) -> Layout:
    """Return the layout of what clients add, of so many users in common."""
    return Layout((Spec("ratings", "float32", (users, 2), "users"),))


def combined_layout(users: int) -> Layout:
    """Return the layout of what they get back: the sums in sixteenths, and how they were made."""
    return Layout((Spec("sums", "int16", (users, 2)), Spec("made", "int32", (3,))))


def summed(known: Known, users: int, centre: float, unit: str, longest: float) -> Floats:
    """Return what a client adds, float64 [users, 2], from its known ratings.

    Args:
        known: the client's, with numbers of users below `users`.
        users: how many there are in common.
        centre: the point of the scale from which heights are told, in [0, 1].
        unit: one of `UNITS` whose part is shortened, "" for a rating where there is no noise.
        longest: the length, > 0.
    """
    low, high = known.shard.scale
    height = np.clip(((known.rating - low) / (high - low) - centre) / MOST, -1.0, 1.0)
    parts = np.stack([HEIGHT * height, np.full(len(height), COUNT)], axis=1)
    if unit != "user":
        parts = _shortened(parts, longest)
    total = np.zeros((users, 2))
    np.add.at(total, known.shard.users[known.user], parts)
    if unit == "user":
        return _shortened(total, longest)
    # What is told comes in such steps: without noise nothing of a client's own part may be left when it takes it away.
    return total if unit else np.rint(total * _FINE) / _FINE


def from_sum(total: NDArray[np.floating], unit: str, longest: float, noise: float) -> Arrays:
    """Return what clients get back, arrays of `combined_layout`; `noise` is the deviation of each number."""
    reach = np.iinfo(np.int16)
    told = np.clip(np.rint(total.astype(np.float64) * _FINE), reach.min, reach.max).astype(np.int16)
    made = [min(noise, _LONGEST) * _MADE, min(longest, _LONGEST) * _MADE, _KNOWN.index(unit)]
    return {"sums": told, "made": np.rint(made).astype(np.int32)}


def understand(known: Known, shared: Arrays, centre: float) -> RemoteRatings:
    """A client's reading of the sums: how its users rate elsewhere, the more cautious the more noise there is.

    Of a user with n ratings elsewhere whose heights above the mean of all there sum to r, the best guess of its effect
    is r n t / (n**2 t + n v + s**2): v is `VARIANCE`, t = v / `SPREAD` that of effects, s the deviation of noise.

    Raises `WireError` for what no server can have sent.
    """
    noise, longest, number = (shared["made"] / np.array([_MADE, _MADE, 1.0])).tolist()
    if noise < 0 or longest <= 0 or number not in range(len(_KNOWN)):
        raise WireError(f"sums of ratings that are made in no way that is known: {shared['made'].tolist()}")
    told = shared["sums"].astype(np.float64) / _FINE
    rest = (told - summed(known, len(told), centre, _KNOWN[int(number)], longest)) / (HEIGHT, COUNT)
    whole = rest.sum(axis=0)
    mean = float(np.clip(whole[0] / whole[1], -1.0, 1.0)) if whole[1] > 0 else 0.0
    height, count = rest[known.shard.users].T
    deviation = noise * np.hypot(1 / HEIGHT, mean / COUNT)
    ratings = np.maximum(count, 0.0)
    ratings = ratings * np.sqrt(_share(ratings**2, (noise / COUNT) ** 2))  # noise alone looks like some ratings, too
    effect = VARIANCE / SPREAD
    apart = ratings**2 * effect + ratings * VARIANCE + deviation**2
    guess = np.divide((height - mean * count) * ratings * effect, apart, out=np.zeros(len(apart)), where=apart > 0)
    return RemoteRatings(4 * MOST * guess, ratings)


def _share(signal: Floats, noise: float) -> Floats:
    return np.divide(signal, signal + noise, out=np.zeros(len(signal)), where=signal > 0)


def _shortened(parts: Floats, longest: float) -> Floats:
    """Rows of at most some length, [rows, 2]."""
    length = np.hypot(*parts.T)
    shortened: Floats = parts * np.minimum(1.0, longest / np.maximum(length, 1e-12))[:, None]
    return shortened


SUMS: Final = "sums"
"""What is shared where clients add up how users rate."""
LABEL_BINS: Final = 5
"""Equal parts of the rating scale whose shares a client can report: the paper's data have five grades."""


@dataclass(frozen=True)
class TellingUsers(SummedTask[RatingShard], CountedTask[RatingShard]):
    """Of a task with the options of `Rating`: how users rate at each client, or at all."""

    units: ClassVar[tuple[str, ...]] = UNITS
    summed_by: ClassVar[str] = f"task.share = {SUMS!r}"
    reach: ClassVar[int] = REACH

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
        return summed_layout(max(1, self.users)) if self.share == SUMS else Layout(())

    def summed(self, shard: RatingShard, unit: str, longest: float) -> Arrays:
        """How high the client's users rate, and how often."""
        known = self.known(shard, shard.rows("train"))
        return {"ratings": summed(known, self.users, self.centre, unit, longest)}

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
        return from_sum(total["ratings"], unit, longest, noise)

    @property
    def combined_layout(self) -> Layout:
        """`Layout` of a code for each user, or of the sums of all."""
        if self.share == SUMS:
            return combined_layout(max(1, self.users))
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
            return understand(known, shared, self.centre)
        return users_elsewhere.understand(known, shared.get("codes", np.zeros(0, np.uint8)), CODES[self.share])
