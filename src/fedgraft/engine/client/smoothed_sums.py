"""A client's part in the sums of a hop of smoothing: rows at the places of those whom they are for, and tallies."""

from typing import TYPE_CHECKING, Final

import numpy as np

from fedgraft.engine.client.client_memory import Memory
from fedgraft.engine.client.sum_codes import numbers_added, packed, wrapped
from fedgraft.engine.privacy.halo_sums import MOST, PLACED, ROWS, at_places, bits_of, check_places
from fedgraft.engine.privacy.secure_sum import SCORE_BITS
from fedgraft.engine.protocol.sums import segment_of
from fedgraft.errors import BeyondLimitError
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays

if TYPE_CHECKING:
    from fedgraft.engine.client.masking import Masking

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
