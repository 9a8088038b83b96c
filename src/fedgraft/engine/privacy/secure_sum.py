"""Whether updates are added up before anybody sees one of them, and how."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.errors import ClientError, require, require_one_of
from fedgraft.wire.layouts import Array
from fedgraft.wire.packing import Codes

CLEAR, MASKED = "clear", "secagg"
SIGNED_KEYS: Final = "secure_sum.signed"
"""Name of the option that errors and remedies speak of."""
SCALES, CODES = "sum.scales", "sum.codes"
"""Names of the scales that a server sends, and of what a client adds."""
PEERS, KEYS, BOXES, PRESENT, ALIVE, SHARES = (
    "sum.peers",
    "sum.keys",
    "sum.boxes",
    "sum.present",
    "sum.alive",
    "sum.shares",
)
"""Names of arrays: which clients are a client's neighbours, public keys, sealed shares, which neighbours have sealed
any, whose codes have arrived, and shares that are revealed. Marks are bits, in the order of neighbours."""
SIGNATURES, CONFIRMED = "sum.signatures", "sum.confirmed"
"""Names of arrays where keys are signed: signatures over keys, and codes by which clients confirm whose codes have
arrived."""
WEIGHT, TOTAL, COUNT = "weight", "total", "count"
"""Names of the scalars that tell a client what its update weighs, what all together weigh at most, and how many clients
are in the sum."""
SCORE_BITS: Final = 64
"""Of a number in a sum of scores."""
_FRACTION: Final = 2.0**16
MOST_WEIGHT: Final = 256
"""Largest weight of one client; ours."""
MOST_BITS: Final = 32
"""Bits of a code in the largest sum that is taken."""


class Assurance(IntEnum):
    """What hides a single update from the server: nothing, masks, or masks whose keys clients sign."""

    NONE, MASKED, SIGNED = range(3)


@dataclass(frozen=True)
class SecureSum:
    """Updates of a round are added up, and the server learns their sum alone.

    Codes of all clients are whole numbers by scales that they have in common, so [codec] must be "quantized" with
    `scale = "agreed"`. They are added modulo a power of two that no sum reaches.

    Source: SecAgg+ (Bell et al., "Secure Single-Server Aggregation with (Poly)Logarithmic Overhead", CCS 2020) after
        Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning", CCS 2017.

    Args:
        name: "" sends each update by itself; "secagg" masks them; "clear" sends the same numbers without masks, and has
            the same results.
        neighbours: clients with which each shares masks, even and >= 0; 0 = by formula, from the size of a cohort.
        threshold: share of its neighbours, in (0.5, 1], that must be there to the end of a round, or there is no sum.
        least_cohort: clients, >= 3, that a sum must be of.
        signed: whether clients sign their keys and confirm to each other who is in a sum, so that a server that lies of
            either reads no update: of k neighbours, of which t must be there, no sum of fewer than 2 t - k + 1 clients.
            A sum takes one exchange more. Nodes need each other's registered keys for it.
        most_weight: in [1, 256]; clients weigh 1 to this many, in proportion to their training examples or to what the
            selector says. With 1 all weigh the same.
    """

    name: str = ""
    neighbours: int = 0
    threshold: float = 0.55
    least_cohort: int = 3
    signed: bool = False
    most_weight: int = 1

    def __post_init__(self) -> None:
        require_one_of("secure_sum.name", self.name, ("", CLEAR, MASKED))
        counts = {"neighbours": (0, 1 << 16), "least_cohort": (3, 1 << 16), "most_weight": (1, MOST_WEIGHT)}
        for name, (least, most) in counts.items():
            value = getattr(self, name)
            fits = type(value) is int and least <= value <= most
            require(fits, f"secure_sum.{name}", f"a whole number in [{least}, {most}]", value)
        require(self.neighbours % 2 == 0, "secure_sum.neighbours", "even", self.neighbours)
        require(0.5 < self.threshold <= 1, "secure_sum.threshold", "in (0.5, 1]", self.threshold)
        fits = self.active or not self.signed
        require(fits, SIGNED_KEYS, "false where secure_sum.name is ''", self.signed)

    @property
    def active(self) -> bool:
        """True where updates are added up."""
        return self.name != ""

    @property
    def assurance(self) -> Assurance:
        """What hides a single update."""
        if self.name != MASKED:
            return Assurance.NONE
        return Assurance.SIGNED if self.signed else Assurance.MASKED


def score_bytes(sums: int) -> int:
    """Return how many bytes scores take as they are added, of a task with so many sums of a split."""
    return SCORE_BITS // 8 * len(SCORED_SPLITS) * sums


def whole(numbers: Array) -> Codes:
    """Return numbers as they are added: uint64, of a 65,536th, modulo 2**64.

    Raises `ClientError` for one that is not finite or beyond 2**46.
    """
    if not (np.abs(numbers) < 2.0**46).all():
        raise ClientError("a sum of scores is not finite or too large")
    return np.rint(numbers * _FRACTION).astype(np.int64).view(np.uint64)


def numbers_of(total: Codes) -> Array:
    """Return the numbers that a sum of `whole` ones stands for, float64."""
    made: Array = total.view(np.int64) / _FRACTION
    return made
