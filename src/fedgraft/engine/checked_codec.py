"""Check that a codec made what it said: it may be anybody's."""

from typing import Any

from fedgraft import wire
from fedgraft.contracts import Codec
from fedgraft.errors import InputError, WireError
from fedgraft.wire.layouts import Arrays, Layout


def check(codec: Codec[Any], encoded: Arrays, layout: Layout) -> None:
    """Raise `InputError`, which names the codec, for arrays that are not those of its `encoded` of this layout."""
    try:
        wire.check(encoded, codec.encoded(layout))
    except WireError as error:
        name = type(codec).__name__
        raise InputError(f"Codec {name} encodes other arrays than its `encoded` says: {error}") from error
