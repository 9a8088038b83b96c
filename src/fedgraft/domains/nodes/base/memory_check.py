"""Check that what clients keep of each other's features fits into the memory of the one machine that simulates them.

A client far from the others needs room for its own halo alone; who simulates a hundred of them on a dense graph keeps
nearly every node a hundred times, and would be killed minutes later without a word.
"""

import os
from collections.abc import Sequence

import numpy as np

from fedgraft.domains.examples import SPARSE
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.errors import InputError

SUGGESTED = 10
"""Neighbours elsewhere of a node that the error proposes to keep; FedAIS draws as many in a step."""
GB = 1e9


def check_inputs(shards: Sequence[NodeShard], hops: int, dense: bool, memory_bytes: int | None = None) -> None:
    """Raise `InputError` where features averaged over `hops`, `inputs.propagate`, are larger than a machine's memory.

    The shards are simulated here; `dense` says whether sparse ones are kept with their zeros, and `memory_bytes` are as
    of `check_room`.
    """
    memory, needed = physical_bytes() if memory_bytes is None else memory_bytes, _own_bytes(shards, hops, dense)
    if hops and memory is not None and needed > memory:
        raise InputError(
            f"inputs.propagate = {hops} has {len(shards)} clients keep {hops + 1} times {shards[0].width:,} features "
            f"of {sum(shard.own for shard in shards):,} nodes: up to {needed / GB:.1f} GB, and this machine has "
            f"{memory / GB:.1f} GB of memory. Fewer hops need less, as do fewer features (data.features)."
        )


def check_room(shards: Sequence[NodeShard], most: int, hops: int = 0, memory_bytes: int | None = None) -> None:
    """Raise `InputError` where features of own nodes and of halos are larger than a machine's whole memory.

    The shards are simulated here. A node keeps `most` neighbours elsewhere, `exchange.halo`; 0 = all. Features are
    averaged over `hops`. `memory_bytes` is the machine's memory, by default this one's; nothing is checked where that
    is not known.
    """
    memory = physical_bytes() if memory_bytes is None else memory_bytes
    kept, needed = _halo_nodes(shards, most), _feature_bytes(shards, most, hops)
    if memory is None or needed <= memory:
        return
    fewer = SUGGESTED if most == 0 or most > SUGGESTED else max(1, most // 2)
    then = _feature_bytes(shards, fewer, hops)
    raise InputError(
        f"exchange.halo = {most}{' (all)' if not most else ''} has {len(shards)} clients keep features of {kept:,} "
        f"nodes of others: {needed / GB:.1f} GB with their own, and this machine has {memory / GB:.1f} GB of memory. "
        f"exchange.halo = {fewer} needs {then / GB:.1f} GB at most; so do fewer clients need less."
    )


def check_matrices(shards: Sequence[NodeShard], memory_bytes: int | None = None) -> None:
    """Raise `InputError` where a number for each pair of a client's nodes, for all clients, is more than a memory.

    The shards are simulated here; `memory_bytes` are as of `check_room`.
    """
    memory, needed = physical_bytes() if memory_bytes is None else memory_bytes, sum(4 * s.own**2 for s in shards)
    if memory is not None and needed > memory:
        raise InputError(
            "task.refinement has clients keep a number for each pair of their nodes, of "
            f"{max(s.own for s in shards):,} at the largest: {needed / GB:.1f} GB in all, and this machine has "
            f"{memory / GB:.1f} GB of memory. More clients with fewer nodes each need less."
        )


def physical_bytes() -> int | None:
    """Memory of this machine; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _halo_nodes(shards: Sequence[NodeShard], most: int) -> int:
    """Nodes of others that all clients keep, each counted for each of them, at most."""
    return sum(min(shard.halo, most * shard.own) if most else shard.halo for shard in shards)


def _feature_bytes(shards: Sequence[NodeShard], most: int, hops: int) -> int:
    """Bytes of own nodes and of halos; rows of others are as long as own ones."""
    own = sum(shard.own for shard in shards)
    return round(_own_bytes(shards, hops) / own * (own + _halo_nodes(shards, most))) if own else 0


def _own_bytes(shards: Sequence[NodeShard], hops: int, is_dense: bool = False) -> int:
    """Float32 of own nodes after 0 .. `hops` averages, and where they are sparse a column for each number, at most.

    An average has at most the numbers of a node and of its neighbours; all are dense where few zeros are left.
    """
    own = sum(shard.own for shard in shards)
    if not own:
        return 0
    dense = 4 * own * shards[0].width
    if is_dense or isinstance(shards[0].features, np.ndarray):
        return dense * (hops + 1)
    stored = sum(int(shard.features.size) for shard in shards)
    if not hops:
        return 8 * stored
    rows = 1 + sum(len(shard.senders) for shard in shards) / own
    numbers = round(stored + sum(min(dense / 4, stored * rows**hop) for hop in range(1, hops + 1)))
    return 8 * numbers if 4 * numbers < SPARSE * dense * (hops + 1) else dense * (hops + 1)
