"""A round's updates added up: the server decodes their sum, and none of them."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from fedgraft import wire
from fedgraft.contracts.abilities.summing import SumCoding
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import SCALES, SCORE_BITS, TOTAL, WEIGHT, numbers_of
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.sums import UPDATES
from fedgraft.engine.protocol.table import TABLE
from fedgraft.engine.server.exchange import Exchange, Replies, Traffic, together
from fedgraft.engine.server.limits import Limits
from fedgraft.engine.server.rounds.collecting import TOGETHER, SumRound, TrainReplies
from fedgraft.engine.server.rounds.next_round import Ahead, Models
from fedgraft.engine.server.rounds.safeguards import norm
from fedgraft.engine.server.rounds.scoring import Scoring
from fedgraft.engine.server.sums.code_sums import SummedHops, codes_in, masks_of, signed, total_of, wide_codes_in
from fedgraft.errors import ClientError, WireError
from fedgraft.wire import Message
from fedgraft.wire.layouts import Array, Arrays

if TYPE_CHECKING:
    from fedgraft.engine.server.sums.masked_exchange import Masked

LOG = logging.getLogger("fedgraft.engine.server.sums.secure_sums")
_FIRST: Final = 10.0
"""Size of a first update, in learning rates: about what ten steps of Adam move a parameter by. Ours."""


@dataclass(frozen=True)
class SecureSumRound(SumRound):
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
    def alike(self) -> bool:
        """False: each has its own weight, and its own sealed shares."""
        return False

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
        limits: of replies.
        clients: how many there are in all.
    """

    hops: ClassVar[type[SummedHops]] = SummedHops

    def __init__(self, plan: Plan, exchange: Exchange, limits: Limits, clients: int) -> None:
        self._plan, self._exchange, self._limits = plan, exchange, limits
        plan.collection.check_clients(clients)
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

    def begin(self, weights: Mapping[int, float], round: int) -> SecureSumRound:
        """Begin the sum of a round's cohort, {client: what its update weighs}; those who are left take part.

        Nobody does where they are fewer than a sum must be of.
        """
        scales = self._scales.get(SCALES)
        if scales is None:
            scales = self._coding.first(_FIRST * self._plan.training.learning_rate)
        whole = self._whole(weights) if len(weights) >= self._plan.collection.least else {}
        if self._masks is None or not whole:
            return SecureSumRound(whole, scales)
        masked = self._masks.agreed(list(whole), round, UPDATES)
        return SecureSumRound({client: whole[client] for client in masked.peers}, scales, masked)

    def ended(self, begun: SumRound, replies: Replies, round: int, rate: float) -> TrainReplies:
        """Return what a cohort has made together in a round: an upload of `TOGETHER`, or none.

        `rate` is the learning rate, by which a mean gradient becomes an update.
        """
        assert isinstance(begun, SecureSumRound), "it is of `begin`"
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
            return TrainReplies({}, _nothing(replies), replies.failed, replies.bytes, replies.waits)

    def scored(
        self, kind: str, models: Models, round: int, ahead: Ahead, after: bool = False, charged: bool = True
    ) -> Scoring:
        """Return what clients' scores come to together; where that is not known, all have failed."""
        masked = self._agreed(kind, sorted(models), round)
        layout = Protocol.of(self._plan).request_layouts.get(kind)
        orders = (
            {client: masked.order(client) for client in masked.peers} if masked else {client: {} for client in models}
        )
        told = {client: {**(models[client] or {}), **more} for client, more in orders.items()}
        requests = {
            client: wire.encode(Message(kind, round, arrays=arrays if layout else None), layout)
            for client, arrays in told.items()
        }
        limits = dict.fromkeys(requests, self._limits.reply_bytes(kind))
        return self._summed(masked, self._exchange.send(kind, round, requests, limits))

    def _agreed(self, kind: str, clients: list[int], round: int) -> "Masked | None":
        """Masks that clients have agreed on for their part in the sum of a kind; None where there are none."""
        added = TABLE[kind].added
        assert added is not None, "scores are added up"
        return self._masks.agreed(clients, round, added.segment) if self._masks else None

    def _summed(self, masked: "Masked | None", replies: Replies) -> Scoring:
        """The sum of scores."""
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

    def _decoded(self, begun: SecureSumRound, replies: Replies, total: Array, rate: float) -> TrainReplies:
        """Return what a sum of codes stands for. Raises `WireError` where somebody's were none: nobody knows whose."""
        weight = sum(begun.weights[client] for client in replies.messages)
        mean = self._coding.mean(total, weight, begun.scales)
        if self._plan.privacy.of_examples:
            mean = {name: array * np.float32(rate) for name, array in mean.items()}
        self._scales[SCALES] = self._coding.following(total, weight, begun.scales)
        known = {TOGETHER: norm(mean)}, {TOGETHER: float(weight)}
        return TrainReplies({TOGETHER: mean}, _nothing(replies), replies.failed, replies.bytes, replies.waits, *known)

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
