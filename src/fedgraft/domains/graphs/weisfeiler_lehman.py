"""Colours: which nodes no network of so many layers can tell apart.

What a network makes of a node in l layers depends on the node's features and on its surroundings up to l steps away and
on nothing else; nodes that agree in these have the same state. It is therefore enough to compute one state per colour,
exactly: sets of molecules have a few hundred where they have a hundred thousand nodes.

Source: Weisfeiler and Lehman 1968 (the refinement); Bollen et al., "Learning Graph Neural Networks using Exact
    Compression", GRADES-NDA 2023.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.graphs.shards import GraphShard

Hashes = NDArray[np.uint64]
OWN, NEIGHBOUR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
"""Odd numbers that set a node's own colour apart from its neighbours' (golden and silver ratio, times 2^64)."""


class Colours(NamedTuple):
    """The colours of a shard's nodes after so many layers, int64 [nodes], and a node that has each, int64 [colours]."""

    of: Indices
    example: Indices


def refine(shard: GraphShard, features: NDArray[np.float32], layers: int, degrees: bool) -> list[Colours]:
    """Colours before the first layer, behind it, and so on: [layers + 1], each a refinement of the one before it.

    Nodes differ at first by kind and by their rows of `features` [nodes, f], and if they need to by their degrees; then
    by what their edges carry, too.
    Colours are told apart by hashes of 64 bits: of half a million, two are taken for one with a chance below 1e-7.
    They are numbered by their hashes, so that their order does not depend on what else there is.
    """
    hashes = mixed(shard.kind.astype(np.int64).view(np.uint64))
    if degrees:
        weighted = shard.edge_rows is not None and shard.edge_rows.weight is not None
        degree = shard.weighted_degree.view(np.uint32) if weighted else shard.degree
        hashes = mixed(hashes + degree.astype(np.uint64))
    for column in (features + np.float32(0)).T:  # which makes a zero of minus zero
        hashes = mixed(hashes + column.view(np.uint32))
    told = None if shard.edge_rows is None else hashes_of(shard.edge_rows)
    steps = (np.unique(step, return_index=True, return_inverse=True) for step in refined(shard, hashes, layers, told))
    return [Colours(of, example) for _, example, of in steps]


def hashes_of(rows: EdgeRows) -> Hashes:
    """Return a hash of what each edge carries, uint64 [edges]: columns, weight, direction."""
    hashes = mixed(rows.along.astype(np.uint64))
    columns = [*rows.values.T, *([] if rows.weight is None else [rows.weight])]
    for column in columns:
        hashes = mixed(hashes + (column + np.float32(0)).view(np.uint32))
    return hashes


def refined(shard: GraphShard, hashes: Hashes, layers: int, told: Hashes | None = None) -> Iterator[Hashes]:
    """Colours as hashes, uint64 [nodes]: the given ones, then those after 1 .. `layers` steps.

    `told`, uint64 [edges], are hashes of what edges carry; None where that does not matter.
    They depend on a node's surroundings alone: equal ones have equal hashes in every graph, process and machine.
    """
    sender = shard.edges[1]
    ends = np.concatenate([[0], np.cumsum(shard.degree)])
    yield hashes
    for _ in range(layers):
        # Unsigned sums wrap around, and so do their differences.
        sent = mixed(hashes * NEIGHBOUR)[sender]
        sent = sent if told is None else mixed(sent + told)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(sent, dtype=np.uint64)])
        hashes = mixed(mixed(hashes * OWN) + sums[ends[1:]] - sums[ends[:-1]])
        yield hashes


def mixed(hashes: Hashes) -> Hashes:
    """Every bit of the result depends on every bit (Steele et al., "SplitMix64", OOPSLA 2014)."""
    bits = hashes + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
