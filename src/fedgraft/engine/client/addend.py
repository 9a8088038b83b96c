"""What a client adds to a round's sum of updates: whole numbers, by scales that all clients have in common."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import randomness
from fedgraft.contracts.abilities.summing import Words
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.client.client_memory import Memory
from fedgraft.engine.client.clipped_gradients import shortened
from fedgraft.engine.client.own_secrets import noise_of
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.halo_sums import MOST, PLACED, ROWS, at_places, bits_of, check_places
from fedgraft.engine.privacy.secure_sum import CODES, MOST_BITS, SCALES, SCORE_BITS, TOTAL, WEIGHT, whole
from fedgraft.engine.protocol.sums import SCORES, STATISTICS, UPDATES, segment_of
from fedgraft.engine.protocol.table import TABLE
from fedgraft.errors import BeyondLimitError, UnknownRequestError, memory_shortage, printable
from fedgraft.wire import Message, packing
from fedgraft.wire.layouts import Array, Arrays
from fedgraft.wire.packing import Codes

if TYPE_CHECKING:
    from fedgraft.engine.client.masking import Masking


Mask: TypeAlias = Callable[[Codes], Codes]
"""Puts masks on codes."""


def numbers_added(numbers: Array, mask: Mask | None) -> Arrays:
    """Return numbers in a message as they are added to those of others, `SCORE_BITS` each."""
    codes = whole(numbers)
    codes = mask(codes) if mask else codes
    return {CODES: codes.astype("<u8").view(np.uint8)}


def wrapped(made: NDArray[np.integer[Any]], bits: int, mask: Mask | None) -> Codes:
    """Return codes modulo 2**bits, masked where there is a mask."""
    codes: Codes = (made.astype(np.int64) & (2**bits - 1)).astype(packing.code_type(bits))
    return mask(codes) if mask else codes


def packed(codes: Codes, bits: int) -> Arrays:
    """Return codes of so many bits as a message holds them."""
    padded = np.zeros(-(-codes.size // 8) * 8, packing.code_type(bits))
    padded[: codes.size] = codes
    return {CODES: packing.pack(padded, codes.size, bits)}


_HALO: Final = "halo"
"""Key of what a client remembers of sums of rows: where its own go, and how many rows there are."""


def smoothed_part(masking: "Masking | None", client: int, message: Message, memory: Memory, told: Arrays) -> Arrays:
    """Return what is told, as it is added to what others tell; `memory` is changed.

    Raises `BeyondLimitError` for a sum that is none, and where another one is asked for than follows.
    """
    kept = memory["smoothing"]
    done = len(kept["rows"])
    if message.kind == "hop" and message.segment != done:
        raise BeyondLimitError(f"asked for the rows after hop {message.segment}, where {done} are known")
    segment = segment_of(message.kind, done)
    if "rows" not in told:
        mask = masking.taken_up(client, message, memory, SCORE_BITS, segment) if masking else None
        return numbers_added(np.concatenate([array.ravel() for array in told.values()]), mask)
    if message.kind == "smooth":
        places, report = {spec.name: (message.arrays or {})[spec.name] for spec in PLACED}, message.report
        check_places(places, report[ROWS], report[MOST], *told["rows"].shape)
        kept = {**kept, _HALO: {**places, ROWS: int(report[ROWS]), MOST: int(report[MOST])}}
        memory["smoothing"] = kept
    halo = kept[_HALO]
    codes, bits = at_places(halo, halo[ROWS], told["rows"]).ravel(), bits_of(halo[MOST])
    mask = masking.taken_up(client, message, memory, bits, segment) if masking and len(codes) else None
    return packed(wrapped(codes, bits, mask), bits)


NO_SCALES: Final = np.zeros(0, np.float32)


@dataclass(frozen=True)
class AddedPart:
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

    def ran(self, train: Callable[[], Message], memory: Memory) -> Message:
        """Train, and return the reply."""
        return train()

    def _secret(self, upload: Arrays) -> Words | None:
        plan, arrays = self.addend.plan, self.message.arrays or {}
        told = [arrays[spec.name] for spec in plan.coded_download_layout]
        hidden = [*told, *(upload[name] for name in sorted(upload))]
        return self.addend.secret(self.client, self.message.round, hidden)


class Addend:
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

    def ordered(self, client: int, message: Message, memory: Memory, examples: int) -> AddedPart:
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


LOG = logging.getLogger("fedgraft.client")


class NoisyPart(AddedPart):
    """A part that is clipped, with noise; a client that cannot train adds noise alone."""

    def sent(self, upload: Arrays, memory: Memory) -> Arrays:
        """Return an update as it is added; gradients of examples are clipped already (docs/adr/0016)."""
        privacy = self.addend.plan.privacy
        return super().sent(upload if privacy.of_examples else shortened(upload, privacy.clip), memory)

    def ran(self, train: Callable[[], Message], memory: Memory) -> Message:
        """Train; whatever goes wrong, return noise: an error would tell for nothing what noise hides."""
        try:
            return train()
        except Exception as error:
            if memory_shortage(error):
                raise
            who, round = self.client, self.message.round
            LOG.info("Client %s, round %s adds noise alone: %s", who, round, printable(str(error)))
            nothing = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in self.addend.plan.upload_layout}
            return Message("train", round, arrays=self.sent(nothing, memory))


class NoisyAddend(Addend):
    """Add what a client makes to what others make, with noise.

    Args:
        plan: what both ends agreed on.
        masking: puts masks on codes; None leaves them as they are.
        root: of the client's secrets, see `own_secrets.root_of`.
    """

    parts: ClassVar[type[AddedPart]] = NoisyPart

    def __init__(self, plan: Plan, masking: "Masking | None", root: bytes) -> None:
        super().__init__(plan, masking)
        self._root = root

    def secret(self, client: int, round: int, hidden: Iterable[Array]) -> Words:
        """Return the source of the noise."""
        return noise_of(self.plan, self._root, client, round, hidden)

    def _count(self, memory: Memory) -> None:
        """Note another round with noise. Raises `BeyondLimitError` where there were as many as noise lasts for."""
        rounds, done = self.plan.rounds, int(memory.get("noised", 0))
        if done >= rounds:
            raise BeyondLimitError(f"noise lasts for {rounds} rounds, of which the client has taken part in all")
        memory["noised"] = done + 1
