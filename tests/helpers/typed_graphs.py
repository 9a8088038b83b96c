"""Small typed graphs."""

import numpy as np

from fedgraft.domains.typed.shards import TypedGraph


def typed_graph(edges, target="paper", features=None, label=None, split=None, classes=("a", "b"), name="small"):
    """A graph from {(type, type): pairs}; by default labels alternate, and all nodes with one train."""
    counts = {}
    for (one, other), pairs in edges.items():
        for kind, side in ((one, 0), (other, 1)):
            counts[kind] = max([counts.get(kind, 0), *(pair[side] + 1 for pair in pairs)])
    targets = counts[target]
    label = np.arange(targets) % len(classes) if label is None else np.asarray(label, np.int64)
    features = np.eye(targets, dtype=np.float32) if features is None else np.asarray(features, np.float32)
    return TypedGraph(
        name=name,
        target=target,
        ids={kind: np.array([f"{kind[0]}{k}" for k in range(count)], dtype=object) for kind, count in counts.items()},
        features=features,
        label=label,
        classes=classes,
        split=np.where(label < 0, -1, 0).astype(np.int8) if split is None else np.asarray(split, np.int8),
        edges={pair: np.array(pairs, np.int32).T.reshape(2, -1) for pair, pairs in edges.items()},
        metapaths=(),
    )
