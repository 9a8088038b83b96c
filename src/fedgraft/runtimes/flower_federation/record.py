"""A message of Flower's with one array of bytes in it."""

from typing import Final

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict

KEY: Final = "message"
"""Name of the record, and of the array in it."""


def record_of(content: bytes) -> RecordDict:
    """Return a message's content for Flower."""
    return RecordDict({KEY: ArrayRecord({KEY: Array(np.frombuffer(content, np.uint8))})})


def bytes_in(content: RecordDict) -> bytes:
    """Return the bytes in a message's content; b"" where it holds anything else."""
    try:
        array = content.array_records[KEY][KEY]
        return array.numpy().tobytes() if array.dtype == "uint8" else b""
    except (KeyError, ValueError, TypeError):
        return b""
