"""A client's edges to nodes of others as bytes of a message."""

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.abilities.smoothing import Boundary
from fedgraft.contracts.values import Indices
from fedgraft.errors import WireError
from fedgraft.wire.layouts import VARIABLE, Array, Layout, Spec
from fedgraft.wire.packing import decode_varints, encode_varints

LAYOUT = Layout((Spec("border", "uint8", (VARIABLE,), "rows"),))
MOST_NODES = 2**31
"""More than that no client has."""


def encode(boundary: Boundary) -> Array:
    """Return uint8 [bytes]: numbers of 7 bits a byte, most of which are small.

    How many nodes there are, and how many in the boundary; of each the gap to the one before it and its neighbours'
    number; of each edge the gap to the owner before it, and the place; and the bits of its weight, if edges have some.
    """
    starts = np.cumsum(boundary.counts) - boundary.counts
    gaps = np.diff(boundary.owner, prepend=0)
    gaps[starts] = boundary.owner[starts]
    sizes = [boundary.own, len(boundary.nodes)]
    weights = [] if boundary.weight is None else [boundary.weight.view(np.uint32)]
    parts = [sizes, np.diff(boundary.nodes, prepend=0), boundary.counts, gaps, boundary.place, *weights]
    return encode_varints(np.concatenate([np.asarray(part, np.int64) for part in parts]))


def decode(coded: Array, client: int) -> Boundary:
    """Return a client's boundary from uint8 [bytes]. Raises `WireError` for bytes that `encode` cannot have made."""
    numbers = decode_varints(coded)
    if len(numbers) < 2:
        raise WireError("a boundary without sizes")
    own, size = int(numbers[0]), int(numbers[1])
    if not 0 < own < MOST_NODES or size > own or len(numbers) < 2 + 2 * size:
        raise WireError(f"a boundary of {size} of {own} nodes in {len(numbers)} numbers")
    gap, counts, rest = np.split(numbers[2:], [size, 2 * size])
    edges = int(counts.sum())
    if (counts < 1).any() or len(rest) not in (2 * edges, 3 * edges):
        raise WireError(f"{len(rest)} numbers for {edges} edges")
    gaps, place, bits = np.split(rest, [edges, 2 * edges])
    nodes, owner = np.cumsum(gap), _summed(gaps, counts)
    sound = (gap[1:] > 0).all() and (not size or nodes[-1] < own)
    if not sound or max(place.max(initial=0), owner.max(initial=0)) >= MOST_NODES:
        raise WireError("nodes of a boundary must ascend, and be among the client's")
    first = np.zeros(len(owner), bool)
    first[np.cumsum(counts) - counts] = True
    ascends = (np.diff(owner) > 0) | (np.diff(place) > 0) & (np.diff(owner) == 0) | first[1:]
    if not ascends.all() or (owner == client).any():
        raise WireError("neighbours elsewhere must ascend, each once")
    return Boundary(own, nodes, counts, owner, place, _weights(bits) if len(bits) else None)


def _weights(bits: Indices) -> NDArray[np.float32]:
    weight = bits.astype(np.uint32).view(np.float32)
    if bits.max() >= 1 << 32 or not (np.isfinite(weight) & (weight > 0)).all():
        raise WireError("weights of edges must be finite and above 0")
    return weight


def _summed(gaps: Indices, counts: Indices) -> Indices:
    """Running sums that begin anew with each node."""
    total = np.cumsum(gaps)
    starts = np.cumsum(counts) - counts
    before: Indices = np.repeat(total[starts] - gaps[starts], counts)
    return total - before
