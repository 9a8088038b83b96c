"""A message of Flower's with one string of bytes in it."""

from typing import Final

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

KEY: Final = "message"
"""Name of the record, and of the bytes in it."""
LONG_BYTES: Final = 1 << 22
"""From this length on a message travels as an array, which Flower cuts into chunks. As one value it takes two requests
less each way, but is sent again as a whole where the link breaks."""


def record_of(content: bytes) -> RecordDict:
    """Return a message's content for Flower."""
    if len(content) < LONG_BYTES:
        return RecordDict({KEY: ConfigRecord({KEY: bytes(content)})})
    return RecordDict({KEY: ArrayRecord({KEY: Array(np.frombuffer(content, np.uint8))})})


def bytes_in(content: RecordDict) -> bytes:
    """Return the bytes in a message's content; b"" where it holds anything else."""
    try:
        if KEY in content.config_records:
            value = content.config_records[KEY][KEY]
            return value if isinstance(value, bytes) else b""
        array = content.array_records[KEY][KEY]
        return array.numpy().tobytes() if array.dtype == "uint8" else b""
    except Exception:  # it is what the other end has sent, and NumPy reads it
        return b""
