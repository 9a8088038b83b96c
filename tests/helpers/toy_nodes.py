"""Graphs of a few nodes, whole and cut, and published sets as files."""

import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import sparse

from fedgraft.domains.nodes.base.shards import NodeShard, WholeGraph, undirected

RING = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]
"""Five nodes; in the tests a sixth has no edge."""


def whole(
    edges: Sequence[tuple[int, int]] = RING,
    label: Sequence[int] = (0, 1, 0, 1, 0, 1),
    split: Sequence[int] | None = None,
    is_sparse: bool = False,
    classes: int = 2,
) -> WholeGraph:
    """A graph whose node v is called "v" and has the features v and 1."""
    nodes = len(label)
    pointers, senders, _ = undirected(np.array(edges, np.int64).reshape(-1, 2).T, nodes, "edge")
    features = np.stack([np.arange(nodes), np.ones(nodes)], axis=1).astype(np.float32)
    return WholeGraph(
        name="toy",
        ids=np.array([str(node) for node in range(nodes)], dtype=object),
        features=sparse.csr_matrix(features) if is_sparse else features,
        label=np.array(label, np.int64),
        classes=tuple(f"class {each}" for each in range(classes)),
        split=np.zeros(nodes, np.int8) if split is None else np.array(split, np.int8),
        pointers=pointers,
        senders=senders,
    )


def directed(shards: Sequence[NodeShard]) -> list[tuple[str, str]]:
    """Every stored edge as (receiver's id, sender's id), with addresses looked up; in order."""
    pairs = []
    for shard in shards:
        halo = [shards[k].ids[v] for k, v in zip(shard.halo_owner, shard.halo_place, strict=True)]
        names = [*shard.ids, *halo]
        for v in range(shard.own):
            pairs += [(names[v], names[s]) for s in shard.senders[shard.pointers[v] : shard.pointers[v + 1]]]
    return sorted(pairs)


def same(one: Sequence[NodeShard], other: Sequence[NodeShard]) -> None:
    """Raise unless shard after shard is the same."""
    for shard, expected in zip(one, other, strict=True):
        for key, value in vars(expected).items():
            found = vars(shard)[key]
            assert np.array_equal(found, value) if isinstance(value, np.ndarray) else found == value, key


def write_npz(path: Path, nodes: int = 60, seed: int = 0) -> None:
    """A made-up set in the layout of gnn-benchmark: a ring, listed one way, with a loop; three classes."""
    g = np.random.default_rng(seed)
    rows = np.arange(nodes)
    ring = sparse.coo_matrix((np.ones(nodes + 1), ([*rows, 0], [*np.roll(rows, 1), 0])), shape=(nodes, nodes)).tocsr()
    words = sparse.csr_matrix((g.random((nodes, 30)) < 0.1).astype(np.float32))
    arrays = {"labels": rows % 3, "class_names": np.array(["x", "y", "z"])}
    for key, matrix in (("adj", ring), ("attr", words)):
        parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
        arrays |= {f"{key}_{part}": np.asarray(value) for part, value in parts.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)


def write_planetoid(root: Path, title: str = "Cora", nodes: int = 600) -> Path:
    """A made-up Planetoid set: a path, two classes, feature v % 5; PyG's reader needs over 500 nodes."""
    raw = root / title / "raw"
    raw.mkdir(parents=True)
    known = nodes - 40
    rows = np.arange(nodes)
    x = sparse.csr_matrix(np.eye(5, dtype=np.float32)[rows % 5])
    y = np.eye(2, dtype=np.int32)[rows % 2]
    graph = {int(v): [int(u) for u in (v - 1, v + 1) if 0 <= u < nodes] for v in rows}
    parts = {"x": x[:20], "y": y[:20], "allx": x[:known], "ally": y[:known], "tx": x[known:], "ty": y[known:]}
    for part, value in {**parts, "graph": graph}.items():
        (raw / f"ind.{title.lower()}.{part}").write_bytes(pickle.dumps(value))
    (raw / f"ind.{title.lower()}.test.index").write_text("".join(f"{v}\n" for v in range(known, nodes)))
    return raw


def shard_of(own: int, edges: Sequence[tuple[int, int]], halo: int = 0) -> NodeShard:
    """Nodes 0 .. own - 1 and a halo behind them; an edge to the halo is written from its own end."""
    both = {(a, b) for a, b in edges if a != b} | {(b, a) for a, b in edges if b < own and a != b}
    receiver, sender = np.array(sorted(both), np.int64).reshape(-1, 2).T
    return NodeShard(
        name="here",
        ids=np.arange(own).astype(object),
        features=np.zeros((own, 1), np.float32),
        label=np.zeros(own, np.int64),
        classes=("a", "b"),
        split=np.zeros(own, np.int8),
        pointers=np.concatenate([[0], np.cumsum(np.bincount(receiver, minlength=own))]),
        senders=sender.astype(np.int32),
        halo_owner=np.ones(halo, np.int32),
        halo_place=np.arange(halo, dtype=np.int32),
    )
