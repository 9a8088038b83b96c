"""Check that what clients keep of each other's features fits into the memory of the one machine that simulates them.

A client far from the others needs room for its own halo alone; who simulates a hundred of them on a dense graph keeps
nearly every node a hundred times, and would be killed minutes later without a word.
"""

import os
from collections.abc import Sequence

import numpy as np

from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.errors import InputError

SUGGESTED = 10
"""Neighbours elsewhere of a node that the error proposes to keep; FedAIS draws as many in a step."""
GB = 1e9


def check_room(shards: Sequence[NodeShard], most: int, memory_bytes: int | None = None) -> None:
    """Raise `InputError` where features of own nodes and of halos are larger than a machine's whole memory.

    The shards are simulated here. A node keeps `most` neighbours elsewhere, `task.halo`; 0 = all. `memory_bytes` is the
    machine's memory, by default this one's; nothing is checked where that is not known.
    """
    memory = physical_bytes() if memory_bytes is None else memory_bytes
    kept, needed = _halo_nodes(shards, most), _feature_bytes(shards, most)
    if memory is None or needed <= memory:
        return
    fewer = SUGGESTED if most == 0 or most > SUGGESTED else max(1, most // 2)
    raise InputError(
        f"task.halo = {most}{' (all)' if not most else ''} has {len(shards)} clients keep features of {kept:,} nodes "
        f"of others: {needed / GB:.1f} GB with their own, and this machine has {memory / GB:.1f} GB of memory. "
        f"task.halo = {fewer} needs {_feature_bytes(shards, fewer) / GB:.1f} GB at most; so do fewer clients need less."
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


def _feature_bytes(shards: Sequence[NodeShard], most: int) -> int:
    """Float32 of own nodes and halos, and where they are sparse a column for each number; rows of others as long."""
    own = sum(shard.own for shard in shards)
    if not own:
        return 0
    numbers = sum(int(shard.features.size) for shard in shards)  # of a CSR, those that are stored
    per_row = numbers / own * (4 if isinstance(shards[0].features, np.ndarray) else 8)
    return round(per_row * (own + _halo_nodes(shards, most)))
