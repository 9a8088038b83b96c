"""Codes of clients that are added up: read from replies, added modulo a power of two, unmasked."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import CODES, SCORE_BITS
from fedgraft.engine.server.exchange import Exchange, Replies
from fedgraft.errors import ClientError, WireError, printable
from fedgraft.wire import packing
from fedgraft.wire.packing import Codes

if TYPE_CHECKING:
    from fedgraft.engine.server.sums.masked_exchange import Masked, MaskedExchange


def masks_of(plan: Plan, exchange: Exchange, clients: int) -> "MaskedExchange | None":
    """Return what has clients agree on masks, where there are any: its cryptography takes its time to import."""
    if not plan.collection.assurance:
        return None
    from fedgraft.engine.server.sums.masked_exchange import MaskedExchange

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
    if len(codes) < (least := plan.collection.least):
        raise ClientError(f"{len(codes)} clients are fewer than the {least} that a sum must be of")
    if masks and masked:
        return masks.unmasked(masked, codes, bits)
    return np.stack(list(codes.values())).sum(0, dtype=np.uint64) & np.uint64(2**bits - 1), Replies()


def signed(total: Codes, bits: int) -> NDArray[np.int64]:
    """Return sums modulo 2**bits whose upper half stands for negative numbers."""
    whole = total.astype(np.int64)
    return whole - (whole >> (bits - 1) << bits)
