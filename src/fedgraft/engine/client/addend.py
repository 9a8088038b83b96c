"""What a client adds to a round's sum of updates: whole numbers, by scales that all clients have in common."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from fedgraft.contracts import randomness
from fedgraft.contracts.abilities.summing import Words
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.client.client_memory import Memory
from fedgraft.engine.client.contribution import Contribution, Part
from fedgraft.engine.client.smoothed_sums import smoothed_part
from fedgraft.engine.client.sum_codes import Mask, numbers_added, packed, wrapped
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import MOST_BITS, SCALES, SCORE_BITS, TOTAL, WEIGHT
from fedgraft.engine.protocol.sums import SCORES, STATISTICS, UPDATES
from fedgraft.engine.protocol.table import TABLE
from fedgraft.errors import BeyondLimitError, UnknownRequestError
from fedgraft.wire import Message
from fedgraft.wire.layouts import Array, Arrays

if TYPE_CHECKING:
    from fedgraft.engine.client.masking import Masking

NO_SCALES: Final = np.zeros(0, np.float32)


@dataclass(frozen=True)
class AddedPart(Part):
    """A client's part in a sum.

    Args:
        addend: what codes it.
        message: the order to train.
        client: who sends it.
        scales: float32 [scales], of the codes.
        weight: of the client, >= 1.
        bits: of a code in the sum.
        mask: puts masks on codes; None leaves them as they are.
    """

    addend: "Addend"
    message: Message
    client: int
    scales: Array
    weight: int
    bits: int
    mask: Mask | None = None

    def sent(self, upload: Arrays, memory: Memory) -> Arrays:
        """Return an update as it is added, [codes] modulo 2**bits, and masked."""
        plan, round = self.addend.plan, self.message.round
        assert plan.sum_coding is not None, "updates are added up"
        g = randomness.lazy(plan.seed, "uplink", round, self.client)
        made = plan.sum_coding.coded(upload, self.scales, g, self.weight, self._secret(upload))
        return packed(wrapped(made, self.bits, self.mask), self.bits)

    def _secret(self, upload: Arrays) -> Words | None:
        plan, arrays = self.addend.plan, self.message.arrays or {}
        told = [arrays[spec.name] for spec in plan.coded_download_layout]
        hidden = [*told, *(upload[name] for name in sorted(upload))]
        return self.addend.secret(self.client, self.message.round, hidden)


class Addend(Contribution):
    """Add what a client makes to what others make.

    Args:
        plan: what both ends agreed on.
        masking: puts masks on codes; None leaves them as they are.
    """

    parts: ClassVar[type[AddedPart]] = AddedPart
    """Class of a client's parts."""

    def __init__(self, plan: Plan, masking: "Masking | None") -> None:
        self.plan, self.masking = plan, masking

    def secret(self, client: int, round: int, hidden: Iterable[Array]) -> Words | None:
        """Return the source of a part's noise, a function of what it hides; None where there is none."""
        return None

    def ordered(self, client: int, message: Message, memory: Memory, examples: int) -> Part:
        """Return a part in the round's sum.

        Raises `BeyondLimitError` for an order without a sum, for scales that are none, and for weights that are none or
        that the client's examples do not explain.
        """
        plan, arrays = self.plan, message.arrays
        if plan.sum_coding is None or arrays is None:
            raise BeyondLimitError("an order to train that says nothing of the sum")
        scales, weight, total = arrays[SCALES], message.report[WEIGHT], message.report[TOTAL]
        most = min(plan.collection.most_weight, max(1, examples))
        if not (1 <= weight <= most and weight.is_integer()):
            raise BeyondLimitError(f"a weight of {weight:g}, where {most} is the most")
        bits = plan.sum_coding.sum_bits(int(total)) if weight <= total < 2**MOST_BITS else MOST_BITS + 1
        if bits > MOST_BITS:
            raise BeyondLimitError(f"weights of {total:g} in all: codes of a sum may have {MOST_BITS} bits at most")
        if not (np.isfinite(scales) & (scales >= 0)).all():
            raise BeyondLimitError("a scale of the sum is negative or not finite")
        self._count(memory)
        mask = self._mask(client, message, memory, bits, UPDATES)
        return self.parts(self, message, client, scales, int(weight), bits, mask)

    def _count(self, memory: Memory) -> None:
        """Count a round."""

    def _mask(self, client: int, message: Message, memory: Memory, bits: int, segment: int) -> Mask | None:
        return self.masking.taken_up(client, message, memory, bits, segment) if self.masking else None

    def statistics(self, client: int, message: Message, memory: Memory, shard: Any) -> Message:
        """Return a client's statistics as they are added to those of others, masked where updates are.

        Raises `BeyondLimitError` for a number of units that is none.
        """
        plan, total = self.plan, message.report[TOTAL]
        task, coding = plan.summed, plan.summed_coding
        if task is None or coding is None:
            raise UnknownRequestError("these options have no statistics that are added up")
        bits = coding.sum_bits(int(total)) if 1 <= total < 2**MOST_BITS else MOST_BITS + 1
        if bits > MOST_BITS:
            raise BeyondLimitError(f"{total:g} units in all: codes of a sum may have {MOST_BITS} bits at most")
        part = task.summed(shard, plan.privacy.unit, plan.privacy.clip)
        g = randomness.lazy(plan.seed, "publish", message.round, client)
        secret = self.secret(client, message.round, [part[name] for name in sorted(part)])
        made = coding.coded(part, NO_SCALES, g, 1, secret)
        mask = self._mask(client, message, memory, bits, STATISTICS)
        return Message("publish", message.round, {}, packed(wrapped(made, bits, mask), bits))

    def scores(self, client: int, message: Message, memory: Memory, reply: Message) -> Message:
        """Return a client's sums of held-out examples as they are added to those of others."""
        scores = np.concatenate([(reply.arrays or {})[split] for split in SCORED_SPLITS])
        mask = self._mask(client, message, memory, SCORE_BITS, SCORES)
        return Message(reply.kind, reply.round, {}, numbers_added(scores, mask))

    def smoothed(self, client: int, message: Message, memory: Memory, told: Arrays) -> Arrays:
        """Return what is told in a hop as it is added to what others tell."""
        if TABLE[message.kind].added is None:
            return told
        return smoothed_part(self.masking, client, message, memory, told)
