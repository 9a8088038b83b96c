"""A client's memory between requests, and its bytes."""

from typing import Any, TypeAlias, cast

import numpy as np

from fedgraft import wire
from fedgraft.wire.layouts import Tree

Memory = dict[str, Any]
"""What a client remembers between requests; a key is absent until first used, and where there is nothing to remember.

    private     parameters that do not travel                sampler     the sampler's state of this client
    sharing     the sharing method's memory                  uplink      the uplink codec's state
    held        the model that it keeps                      probed      the model of a probe, until it trains
    states      hidden states of its nodes and its halo      best        its best model, those that answer with it,
    smoothing   what is smoothed, see `client.smoothing`                 and their choice and sums
    moments     those of its optimiser, a table for each run of a round
    sum         what it knows of its neighbours in a sum that is under way
    revealed    the last order at which it has revealed shares of a sum of updates, where keys are signed
    kept        coded arrays of a model that it was sent last, which are not sent again as long as they stay

What the server sent it before training is not among them: it may be most of what a client has, and never changes, so
the message is kept as it came (see `client.Client.serve`).
"""
Kept: TypeAlias = Memory | bytes | memoryview
"""A memory, or its bytes: what stays in one process is packed for a checkpoint alone."""


def same(memory: Memory, before: Memory) -> bool:
    """Return whether every value is the very object it was: handlers replace values, never change them."""
    return all(memory.get(key) is before.get(key) for key in memory.keys() | before.keys())


def unpacked(memory: Kept) -> Memory:
    """A memory whose values may be replaced without changing what it is made of."""
    if isinstance(memory, dict):
        return dict(memory)
    return dict(wire.unpack(memory, views=True)) if memory else {}  # type: ignore[arg-type]


def pieces(memory: Memory) -> list[bytes | memoryview]:
    """The bytes of what there is to remember, one behind the other; none for nothing, nor a file of a checkpoint."""
    return wire.pieces(memory) if memory else [b""]


def packed(memory: Kept) -> bytes:
    """Return the memory packed as bytes; bytes are returned as they are."""
    return b"".join(pieces(memory)) if isinstance(memory, dict) else bytes(memory)


def settled(memory: Memory) -> Memory:
    """Return what `unpacked` would make of its bytes: equal values of the same types that nobody can change.

    So a run that goes on in one process does the same as one that was stored and taken up again. Raises what `packed`
    would: a value that no tree holds is the client's error now, not a checkpoint's later.
    """
    made = {key: _settled(value) for key, value in memory.items() if value is not None}
    pieces(made)  # no array is copied
    return made


def _settled(tree: Any) -> Tree:
    if isinstance(tree, dict):  # of thousands of numbers where scores are kept
        return {key: value if type(value) is float else _settled(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_settled(value) for value in tree]
    if not isinstance(tree, np.ndarray):
        return cast(Tree, tree.item() if isinstance(tree, np.generic) else tree)
    # A view would keep all that it is a view of.
    array = tree if tree.flags.owndata and tree.flags.c_contiguous else tree.copy(order="C")
    array.flags.writeable = False
    return array
