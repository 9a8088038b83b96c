"""Arrays, layouts, messages and trees as bytes: the one serialiser.

`pack` and `unpack` are for trees, `encode` and `decode` for messages.
"""

from fedgraft.wire.buffers import DEFAULT_LIMIT
from fedgraft.wire.messages import (
    KINDS,
    TEXT_BYTES,
    Message,
    arrays_bytes,
    check,
    declare,
    decode,
    encode,
    header_bytes,
    kind_of,
    message_bytes,
    place_of,
)
from fedgraft.wire.trees import MAX_DEPTH, pack, pieces, unpack

__all__ = [
    "DEFAULT_LIMIT",
    "KINDS",
    "MAX_DEPTH",
    "TEXT_BYTES",
    "Message",
    "arrays_bytes",
    "check",
    "declare",
    "decode",
    "encode",
    "header_bytes",
    "kind_of",
    "message_bytes",
    "pack",
    "pieces",
    "place_of",
    "unpack",
]
