"""Coded arrays of a model or an update as they travel: checked, and without those that stay as they are.

Parameters may stay as they are from some round on, of which a sharing method tells: they are not sent again. Down, a
client keeps such arrays as it was sent them last, coded, and the server notes their digest; they are left out of what
it is sent as long as that is theirs. Up, they are left out where they are all zeros. An array that is left out has no
rows, so that it has a `VARIABLE` first dimension in a message's layout. Codecs are not concerned: an array whose
numbers a codec puts into another one travels as ever.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedgraft import wire
from fedgraft.contracts import Codec
from fedgraft.engine.plan import Plan
from fedgraft.errors import ClientError, InputError, WireError
from fedgraft.wire.layouts import Array, Arrays, Layout, part_of

KEPT = "kept"
"""Name of what a client remembers of them."""


def settled_in(plan: Plan, arrays: Mapping[str, Array]) -> Arrays:
    """Return the coded arrays of a message that may be left out."""
    return {name: array for name, array in arrays.items() if array.ndim and plan.sharing.settles(name)}


def without(arrays: Arrays, names: Mapping[str, Array]) -> Arrays:
    """Return a message's arrays, some without their rows."""
    return {name: array[:0] if name in names else array for name, array in arrays.items()}


def completed(plan: Plan, arrays: Arrays, memory: dict[str, object]) -> Arrays:
    """Return a received model's coded arrays with those that a client keeps; it keeps those that have come."""
    settled = settled_in(plan, part_of(arrays, plan.coded_download_layout))
    lacking = {name for name, array in settled.items() if not len(array)}
    if not lacking:
        if settled:
            memory[KEPT] = settled
        return arrays
    kept = memory.get(KEPT, {})
    if not isinstance(kept, dict) or lacking - kept.keys():
        raise ClientError(f"sent a model without {min(lacking)}, which it does not keep")
    return {**arrays, **{name: kept[name] for name in lacking}}


def shortened_upload(plan: Plan, encoded: Arrays) -> Arrays:
    """Return a coded update without rows of zeros alone."""
    return without(encoded, {name: array for name, array in settled_in(plan, encoded).items() if not array.any()})


def whole_upload(plan: Plan, arrays: Mapping[str, Array]) -> Arrays:
    """Return a reply's coded update with its zeros, for `plan.uplink` to decode."""
    coded, layout = part_of(arrays, plan.coded_upload_layout), plan.uplink.encoded(plan.upload_layout)
    settled = settled_in(plan, coded)
    zeros: Arrays = {
        spec.name: np.zeros(spec.shape, spec.dtype)
        for spec in layout
        if spec.name in settled and not len(settled[spec.name])
    }
    return {**coded, **zeros}


def check(codec: Codec[Any], encoded: Arrays, layout: Layout) -> None:
    """Raise `InputError`, which names the codec, for arrays that are not those of its `encoded` of this layout."""
    try:
        wire.check(encoded, codec.encoded(layout))
    except WireError as error:
        name = type(codec).__name__
        raise InputError(f"Codec {name} encodes other arrays than its `encoded` says: {error}") from error
