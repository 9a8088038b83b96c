"""Encoding by a codec that may be anybody's: what it makes must be what it says."""

from typing import Any

import numpy as np

from fedgraft import wire
from fedgraft.contracts import Codec
from fedgraft.errors import InputError, WireError
from fedgraft.wire.layouts import Arrays, Layout


def encode(codec: Codec[Any], arrays: Arrays, state: Any, layout: Layout, g: np.random.Generator) -> tuple[Arrays, Any]:
    """Return what `codec.encode` does.

    Args:
        codec: of the plan.
        arrays: of `layout`.
        state: this end's.
        layout: of what is encoded.
        g: to draw from.

    Raises `InputError`, which names the codec, where the arrays are not those of `codec.encoded(layout)`.
    """
    encoded, after = codec.encode(arrays, state, g)
    try:
        wire.check(encoded, codec.encoded(layout))
    except WireError as error:
        raise InputError(
            f"Codec {type(codec).__name__} encodes other arrays than its `encoded` says: {error}"
        ) from error
    return encoded, after
