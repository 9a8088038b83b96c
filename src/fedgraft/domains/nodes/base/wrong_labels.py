"""Some clients' training labels are wrong: data whose worth differs between clients."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedgraft.contracts.randomness import generator
from fedgraft.domains.nodes.base.shards import NodeShard


def with_wrong_labels(shards: Sequence[NodeShard], clients: float, labels: float, seed: int) -> list[NodeShard]:
    """Return the shards, where a share of clients has a share of its training labels replaced by other classes.

    Symmetric noise: a label that is wrong is any of the other classes with equal probability. Validation and test
    labels stay right. Who they are depends on the seed and the number of clients; numbers are rounded.

    Source: symmetric label noise as in Patrini et al., "Making Deep Neural Networks Robust to Label Noise", CVPR 2017.

    Args:
        shards: of all clients; labels are classes.
        clients: share of clients, in [0, 1].
        labels: share of the training labels of each of them, in [0, 1].
        seed: of the run.
    """
    found, count = list(shards), round(clients * len(shards))
    for k in sorted(generator(seed, "wrong_clients").choice(len(shards), count, replace=False).tolist()):
        found[k] = _altered(found[k], labels, generator(seed, "wrong_labels", client=k))
    return found


def _altered(shard: NodeShard, share: float, g: np.random.Generator) -> NodeShard:
    rows, classes, label = shard.rows("train"), len(shard.classes), shard.label.copy()
    wrong = g.choice(rows, round(share * len(rows)), replace=False)
    label[wrong] = (label[wrong] + g.integers(1, classes, len(wrong))) % classes
    return replace(shard, label=label)
