"""The order for a client's part in a sum: what of it all clients have alike, and a digest of that."""

import hashlib

from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import TOTAL
from fedgraft.engine.protocol.table import TABLE
from fedgraft.wire import Message


def digest_of(plan: Plan, order: Message) -> bytes:
    """Return a SHA-256 of what all have alike who add to a sum: the model, scales of codes, the total of weights.

    Who was sent another order confirms nobody else.
    """
    added, arrays = TABLE[order.kind].added, order.arrays or {}
    digest = hashlib.sha256(f"{order.kind} {order.report.get(TOTAL, 0.0)}".encode())
    for spec in added.common(plan) if added else ():
        digest.update(arrays[spec.name].tobytes())
    return digest.digest()
