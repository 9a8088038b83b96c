"""Runs on random features, in which what is found in a message must have leaked."""

from dataclasses import replace

import numpy as np
from scipy import sparse

from helpers.toy_runs import looped

LENGTH = 8


def ran(experiment, shards):
    """(every message, what the clients remember, the last state)."""
    with looped(experiment, shards=shards) as (loop, runtime):
        state = loop.run(loop.start(), lambda state, row: None)
        loop.smooth(state)
        memories = dict(runtime.memories(changed=False))
    messages = [each[-1] for each in (*runtime.sent, *runtime.received)]
    assert all(isinstance(message, bytes) for message in messages)
    return messages, memories, state


def stretches(blob):
    """Every stretch of so many bytes, wherever it begins, as a number."""
    ends = (len(blob) - begin - (len(blob) - begin) % LENGTH + begin for begin in range(LENGTH))
    parts = [np.frombuffer(blob[begin:end], "<u8") for begin, end in enumerate(ends) if end > begin]
    return np.unique(np.concatenate([np.zeros(0, "<u8"), *parts]))


def rows_of(shards):
    """The bytes of every node's features; of sparse ones those that are not zero."""
    for shard in shards:
        for node in range(shard.own):
            row = shard.features[node]
            yield (row if isinstance(row, np.ndarray) else row.data).tobytes()


def found(messages, shards):
    """How many stretches of features occur in any message."""
    wanted = np.unique(np.concatenate([stretches(row) for row in rows_of(shards)]))
    assert len(wanted) > 1000
    return sum(np.isin(stretches(message), wanted, assume_unique=True).sum() for message in messages)


def random_features(shards, is_sparse):
    """The same graph with features of random numbers."""
    g = np.random.default_rng(3)
    for shard in shards:
        features = g.standard_normal((shard.own, 8)).astype(np.float32)
        if is_sparse:
            features = sparse.csr_matrix(features * (g.random(features.shape) < 0.6))
        yield replace(shard, features=features)
