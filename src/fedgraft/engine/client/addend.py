"""What a client adds to a round's sum of updates: whole numbers, by scales that all clients have in common."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import randomness
from fedgraft.contracts.summing import Words
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.client.client_memory import Memory
from fedgraft.engine.client.own_secrets import RegisteredKeys, noise_of, root_of
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import CODES, MOST_BITS, SCALES, SCORE_BITS, TOTAL, WEIGHT, whole
from fedgraft.engine.protocol.sums import SCORES, STATISTICS, UPDATES
from fedgraft.errors import BeyondLimitError, UnknownRequestError
from fedgraft.wire import Message, packing
from fedgraft.wire.layouts import Array, Arrays
from fedgraft.wire.packing import Codes

if TYPE_CHECKING:
    from fedgraft.engine.client.masking import Masking


@dataclass(frozen=True)
class Adding:
    """What the order to train says of the sum.

    Args:
        scales: float32 [scales], of the codes.
        weight: of the client, >= 1.
        bits: of a code in the sum.
        mask: puts masks on codes; None leaves them as they are.
        secret: returns what noise on an upload is drawn from; None where there is none.
    """

    scales: Array
    weight: int
    bits: int
    mask: Callable[[Codes], Codes] | None = None
    secret: Callable[[Arrays], Words | None] = field(default=lambda upload: None)


def masking_of(plan: Plan, root: bytes, keys: RegisteredKeys | None) -> "Masking | None":
    """Return the client's part in masked sums, if there are any: its cryptography takes its time to import.

    `keys` are a node's; None = those of a simulation.
    """
    if not plan.secure_sum.masked:
        return None
    from fedgraft.engine.client.masking import Masking

    if not plan.secure_sum.signed:
        return Masking(plan, root_of(plan, root))
    from fedgraft.secrets.signing import Signatures

    own = root_of(plan, root)
    known = Signatures.registered(keys.run, keys.private, keys.public) if keys else Signatures.simulated(own)
    return Masking(plan, own, known)


def adding_of(
    plan: Plan, client: int, message: Message, memory: Memory, masking: "Masking | None", root: bytes, examples: int
) -> Adding | None:
    """Return what an order to train says of the sum; None where each update is sent by itself.

    `examples` are the client's. Raises `BeyondLimitError` for scales that are none, for weights that are none or that
    its examples do not explain, and where noise no longer lasts.
    """
    if plan.sum_coding is None or message.arrays is None:
        return None
    scales, weight, total = message.arrays[SCALES], message.report[WEIGHT], message.report[TOTAL]
    most = min(plan.most_weight, max(1, examples))
    if not (1 <= weight <= most and weight.is_integer()):
        raise BeyondLimitError(f"a weight of {weight:g}, where {most} is the most")
    bits = plan.sum_coding.sum_bits(int(total)) if weight <= total < 2**MOST_BITS else MOST_BITS + 1
    if bits > MOST_BITS:
        raise BeyondLimitError(f"weights of {total:g} in all: codes of a sum may have {MOST_BITS} bits at most")
    if not (np.isfinite(scales) & (scales >= 0)).all():
        raise BeyondLimitError("a scale of the sum is negative or not finite")
    if plan.privacy.active:
        _count_round(plan, memory)
    mask = masking.taken_up(client, message, memory, bits, UPDATES) if masking else None
    told = [message.arrays[spec.name] for spec in plan.coded_download_layout]

    def secret(upload: Arrays) -> Words | None:
        return noise_of(plan, root, client, message.round, [*told, *(upload[name] for name in sorted(upload))])

    return Adding(scales, int(weight), bits, mask, secret)


def _count_round(plan: Plan, memory: Memory) -> None:
    """Note that another round has the client's noise. Raises `BeyondLimitError` where there were as many as it may."""
    done = int(memory.get("noised", 0))
    if done >= plan.rounds:
        raise BeyondLimitError(f"noise lasts for {plan.rounds} rounds, of which the client has taken part in all")
    memory["noised"] = done + 1


def statistics_added(
    plan: Plan, client: int, message: Message, memory: Memory, shard: Any, masking: "Masking | None", root: bytes
) -> Message:
    """Return a client's statistics as they are added to those of others, masked where updates are.

    Raises `BeyondLimitError` for a number of units that is none.
    """
    task, coding, total = plan.summed, plan.summed_coding, message.report[TOTAL]
    if task is None or coding is None:
        raise UnknownRequestError("these options have no statistics that are added up")
    bits = coding.sum_bits(int(total)) if 1 <= total < 2**MOST_BITS else MOST_BITS + 1
    if bits > MOST_BITS:
        raise BeyondLimitError(f"{total:g} units in all: codes of a sum may have {MOST_BITS} bits at most")
    part = task.summed(shard, plan.privacy.unit, plan.privacy.clip)
    g, none = randomness.lazy(plan.seed, "publish", message.round, client), np.zeros(0, np.float32)
    made = coding.coded(
        part, none, g, 1, noise_of(plan, root, client, message.round, [part[name] for name in sorted(part)])
    )
    mask = masking.taken_up(client, message, memory, bits, STATISTICS) if masking else None
    return Message("publish", message.round, {}, packed(wrapped(made, bits, mask), bits))


def scores_added(
    plan: Plan, client: int, message: Message, memory: Memory, reply: Message, masking: "Masking | None"
) -> Message:
    """Return a client's sums of held-out examples as they are added to those of others, masked where updates are."""
    if not plan.secure_sum.active:
        return reply
    scores = np.concatenate([(reply.arrays or {})[split] for split in SCORED_SPLITS])
    mask = masking.taken_up(client, message, memory, SCORE_BITS, SCORES) if masking else None
    return Message(reply.kind, reply.round, {}, numbers_added(scores, mask))


def numbers_added(numbers: Array, mask: Callable[[Codes], Codes] | None) -> Arrays:
    """Return numbers in a message as they are added to those of others, `SCORE_BITS` each."""
    codes = whole(numbers)
    codes = mask(codes) if mask else codes
    return {CODES: codes.astype("<u8").view(np.uint8)}


def coded(plan: Plan, adding: Adding, upload: Arrays, round: int, client: int) -> Codes:
    """Return a client's update as it is added, [codes] modulo 2**bits, and masked."""
    assert plan.sum_coding is not None, "updates are added up"
    g = randomness.lazy(plan.seed, "uplink", round, client)
    made = plan.sum_coding.coded(upload, adding.scales, g, adding.weight, adding.secret(upload))
    return wrapped(made, adding.bits, adding.mask)


def wrapped(made: NDArray[np.integer[Any]], bits: int, mask: Callable[[Codes], Codes] | None) -> Codes:
    """Return codes modulo 2**bits, masked where there is a mask."""
    codes: Codes = (made.astype(np.int64) & (2**bits - 1)).astype(packing.code_type(bits))
    return mask(codes) if mask else codes


def packed(codes: Codes, bits: int) -> Arrays:
    """Return codes of so many bits as a message holds them."""
    padded = np.zeros(-(-codes.size // 8) * 8, packing.code_type(bits))
    padded[: codes.size] = codes
    return {CODES: packing.pack(padded, codes.size, bits)}
