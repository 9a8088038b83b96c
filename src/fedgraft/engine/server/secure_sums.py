"""A round's updates added up: the server decodes their sum, and none of them."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.summing import SumCoding
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import (
    CODES,
    SCALES,
    SCORE_BITS,
    TOTAL,
    WEIGHT,
    numbers_of,
)
from fedgraft.engine.protocol.sums import UPDATES
from fedgraft.engine.server.exchange import Exchange, Replies, Traffic, together
from fedgraft.engine.server.safeguards import norm
from fedgraft.engine.server.scoring import Scoring
from fedgraft.engine.server.trained import TOGETHER, Trained
from fedgraft.errors import ClientError, WireError, printable, require
from fedgraft.wire import packing
from fedgraft.wire.layouts import Array, Arrays
from fedgraft.wire.packing import Codes

if TYPE_CHECKING:
    from fedgraft.engine.server.masked_exchange import Masked, MaskedExchange

LOG = logging.getLogger("fedgraft.engine.server.secure_sums")
_FIRST: Final = 10.0
"""Size of a first update, in learning rates: about what ten steps of Adam move a parameter by. Ours."""


@dataclass(frozen=True)
class Begun:
    """A sum that is under way.

    Args:
        weights: {client that takes part: what its update weighs, >= 1}.
        scales: float32 [scales], of the codes.
        masked: what the cohort has agreed on; None where codes are not masked.
    """

    weights: Mapping[int, int]
    scales: Array
    masked: "Masked | None" = None

    @property
    def total(self) -> int:
        """int, what all weigh together."""
        return sum(self.weights.values())

    def report(self, client: int) -> dict[str, float]:
        """Return the scalars that a client is told with the order to train."""
        return {WEIGHT: float(self.weights[client]), TOTAL: float(self.total)}

    def arrays(self, client: int) -> Arrays:
        """Return the arrays that it is told."""
        return {SCALES: self.scales, **(self.masked.order(client) if self.masked else {})}


class SecureSums:
    """Add up the updates of a round.

    Clients' weights are whole numbers up to `secure_sum.most_weight`. Scales of the codes follow from the last sum.

    Args:
        plan: what both ends agreed on.
        exchange: sends requests.
        clients: how many there are in all.
    """

    def __init__(self, plan: Plan, exchange: Exchange, clients: int) -> None:
        self._plan = plan
        name = "privacy.shares" if plan.privacy.shares > plan.secure_sum.least_cohort else "secure_sum.least_cohort"
        require(clients >= plan.least_cohort, name, f"at most {clients}, the number of clients", plan.least_cohort)
        self._masks = masks_of(plan, exchange, clients)
        self._scales: Arrays = {}

    @property
    def _coding(self) -> SumCoding:
        assert self._plan.sum_coding is not None, "updates are added up"
        return self._plan.sum_coding

    @property
    def most_bytes(self) -> Traffic:
        """The most bytes that a client's messages for the masks of a sum take."""
        return self._masks.most_bytes if self._masks else Traffic()

    def open(self, scales: Arrays) -> None:
        """Serve a run from its start, or from where it was stored: `scales` is changed in place."""
        self._scales = scales

    def begin(self, weights: Mapping[int, float], round: int) -> Begun:
        """Begin the sum of a round's cohort, {client: what its update weighs}; those who are left take part.

        Nobody does where they are fewer than a sum must be of.
        """
        scales = self._scales.get(SCALES)
        if scales is None:
            scales = self._coding.first(_FIRST * self._plan.training.learning_rate)
        whole = self._whole(weights) if len(weights) >= self._plan.least_cohort else {}
        if self._masks is None or not whole:
            return Begun(whole, scales)
        masked = self._masks.agreed(list(whole), round, UPDATES)
        return Begun({client: whole[client] for client in masked.peers}, scales, masked)

    def ended(self, begun: Begun, replies: Replies, round: int, rate: float) -> Trained:
        """Return what a cohort has made together in a round: an upload of `TOGETHER`, or none.

        `rate` is the learning rate, by which a mean gradient becomes an update.
        """
        bits = self._coding.sum_bits(begun.total)
        codes, refused = codes_in(replies, self._coding.codes, bits)
        replies = replies.without(refused)
        if begun.masked:
            replies = together(begun.masked.before, replies)
        try:
            total, last = total_of(self._plan, self._masks, begun.masked, codes, bits)
            replies = replace(together(replies, last), messages=replies.messages, failed=replies.failed)
            whole = signed(total, bits) if self._coding.signed else total.astype(np.int64)
            return self._decoded(begun, replies, whole, rate)
        except (ClientError, WireError) as error:
            LOG.warning("Round %d has no sum of updates: %s.", round, error)
            return Trained({}, _nothing(replies), replies.failed, replies.bytes, replies.waits)

    def scored_by(self, clients: Collection[int], round: int, segment: int) -> "Masked | None":
        """Have clients agree on masks of their scores, that sum of the round; None where these are not masked."""
        return self._masks.agreed(sorted(clients), round, segment) if self._masks else None

    def scored(self, masked: "Masked | None", replies: Replies) -> Scoring:
        """Return what clients' scores come to together; where that is not known, all have failed."""
        names = self._plan.task.sums
        found, refused = wide_codes_in(replies, len(SCORED_SPLITS) * len(names))
        replies = replies.without(refused)
        if masked:
            replies = together(masked.before, replies)
        try:
            numbers = numbers_of(total_of(self._plan, self._masks, masked, found, SCORE_BITS)[0])
            if (numbers < 0).any():
                raise ClientError("a sum is negative, and nobody knows whose scores were")
        except ClientError as error:
            lost = replies.without(dict.fromkeys(found, f"no sum of scores: {error}"))
            return Scoring({split: dict.fromkeys(names, 0.0) for split in SCORED_SPLITS}, {}, lost.failed)
        rows = numbers.reshape(len(SCORED_SPLITS), len(names)).tolist()
        sums = {split: dict(zip(names, row, strict=True)) for split, row in zip(SCORED_SPLITS, rows, strict=True)}
        return Scoring(sums, {}, replies.failed)

    def _decoded(self, begun: Begun, replies: Replies, total: Array, rate: float) -> Trained:
        """Return what a sum of codes stands for. Raises `WireError` where somebody's were none: nobody knows whose."""
        weight = sum(begun.weights[client] for client in replies.messages)
        mean = self._coding.mean(total, weight, begun.scales)
        if self._plan.privacy.of_examples:
            mean = {name: array * np.float32(rate) for name, array in mean.items()}
        self._scales[SCALES] = self._coding.following(total, weight, begun.scales)
        known = {TOGETHER: norm(mean)}, {TOGETHER: float(weight)}
        return Trained({TOGETHER: mean}, _nothing(replies), replies.failed, replies.bytes, replies.waits, *known)

    def _whole(self, weights: Mapping[int, float]) -> dict[int, int]:
        """Weights as whole numbers, none below 1: the largest `most_weight`, or numbers of examples."""
        if self._plan.privacy.of_examples:
            return {client: max(1, round(weight)) for client, weight in weights.items()}
        largest = max(weights.values(), default=0.0)
        unit = self._plan.secure_sum.most_weight / largest if largest > 0 else 0.0
        if all(float(weight).is_integer() for weight in weights.values()):
            unit = min(unit, 1.0)  # numbers of examples: no client takes a weight of more than it has
        return {client: max(1, round(weight * unit)) for client, weight in weights.items()}


def _nothing(replies: Replies) -> dict[int, dict[str, float]]:
    """What the server hears of each client that answered."""
    return {client: {} for client in replies.messages}


def masks_of(plan: Plan, exchange: Exchange, clients: int) -> "MaskedExchange | None":
    """Return what has clients agree on masks, where there are any: its cryptography takes its time to import."""
    if not plan.secure_sum.masked:
        return None
    from fedgraft.engine.server.masked_exchange import MaskedExchange

    return MaskedExchange(plan, exchange, clients)


def codes_in(replies: Replies, count: int, bits: int) -> tuple[dict[int, Codes], dict[int, str]]:
    """Return {client: what it adds}, so many codes, and {client: why its reply is refused}."""
    codes, refused = {}, {}
    for client, message in sorted(replies.messages.items()):
        try:
            codes[client] = packing.unpack((message.arrays or {})[CODES], count, bits)
        except WireError as error:
            refused[client] = printable(str(error))
    return codes, refused


def wide_codes_in(replies: Replies, count: int) -> tuple[dict[int, Codes], dict[int, str]]:
    """The same of codes of `SCORE_BITS`."""
    told = {client: (message.arrays or {})[CODES] for client, message in sorted(replies.messages.items())}
    codes = {
        client: content.view("<u8").astype(np.uint64)
        for client, content in told.items()
        if len(content) == SCORE_BITS // 8 * count
    }
    return codes, dict.fromkeys(told.keys() - codes.keys(), f"tells other than {count} numbers")


def total_of(
    plan: Plan, masks: "MaskedExchange | None", masked: "Masked | None", codes: Mapping[int, Codes], bits: int
) -> tuple[Codes, Replies]:
    """Return the sum of codes, {client: they}, modulo 2**bits, and the replies that unmasked it.

    Raises `ClientError` where there is none.
    """
    if len(codes) < (least := plan.least_cohort):
        raise ClientError(f"{len(codes)} clients are fewer than the {least} that a sum must be of")
    if masks and masked:
        return masks.unmasked(masked, codes, bits)
    return np.stack(list(codes.values())).sum(0, dtype=np.uint64) & np.uint64(2**bits - 1), Replies()


def signed(total: Codes, bits: int) -> NDArray[np.int64]:
    """Return sums modulo 2**bits whose upper half stands for negative numbers."""
    whole = total.astype(np.int64)
    return whole - (whole >> (bits - 1) << bits)
