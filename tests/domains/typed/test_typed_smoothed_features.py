"""Features averaged along metapaths: three papers by hand, and what a mean keeps."""

import numpy as np
import pytest
from scipy import sparse

from fedgraft.domains.typed.client_data import smoothed
from fedgraft.domains.typed.metapath_graphs import metapath_matrix
from fedgraft.domains.typed.shards import TypedGraph
from fedgraft.methods.data.typed_blocks import TypedBlocks
from fedgraft.methods.inputs.propagated import Propagated
from fedgraft.methods.models.metapath_means import MetapathMeans
from fedgraft.methods.tasks.typed_node import TypedNode


def papers(is_sparse: bool = False) -> TypedGraph:
    """Papers 0 and 1 share an author, 1 and 2 a venue; features are a paper's number, and 1."""
    features = np.array([[0, 1], [1, 1], [2, 1]], np.float32)
    return TypedGraph(
        name="here",
        target="paper",
        ids={
            kind: np.array([f"{kind}{k}" for k in range(n)], object)
            for kind, n in (("paper", 3), ("author", 1), ("venue", 1))
        },
        features=sparse.csr_matrix(features) if is_sparse else features,
        label=np.array([0, 1, 0]),
        classes=("a", "b"),
        split=np.zeros(3, np.int8),
        edges={
            ("paper", "author"): np.array([[0, 1], [0, 0]], np.int32),
            ("paper", "venue"): np.array([[1, 2], [0, 0]], np.int32),
        },
        metapaths=("paper-author-paper", "paper-venue-paper"),
    )


@pytest.mark.parametrize("is_sparse", [False, True])
def test_three_papers_by_hand(is_sparse: bool) -> None:
    graph = papers(is_sparse)
    read, joins = Propagated(propagate=2), [metapath_matrix(graph, each) for each in graph.metapaths]
    inputs = smoothed(read, graph.features, joins)
    assert isinstance(inputs, np.ndarray), "few zeros are left"
    assert inputs.shape == (3, 2 * read.blocks(2))
    # By authors papers 0 and 1 have their mean, once and for all; by venues 1 and 2 do.
    np.testing.assert_array_equal(inputs[:, 0], [0, 1, 2])
    np.testing.assert_array_equal(inputs[:, [2, 4]].T, [[0.5, 0.5, 2]] * 2)
    np.testing.assert_array_equal(inputs[:, [6, 8]].T, [[0, 1.5, 1.5]] * 2)
    np.testing.assert_array_equal(inputs[:, 1::2], 1)


def test_features_are_scaled_first_and_the_target_type_alone_adds_nothing() -> None:
    task = TypedNode(
        encoder=MetapathMeans(hidden=4),
        metapaths=("paper", "paper-author-paper"),
        inputs=Propagated(propagate=1, scale=2.0),
    )
    shard = TypedBlocks(papers=30, clients=2, classes=3, features=16).load(0)[0]
    fitted = task.fitted([shard])
    rows = fitted.prepare(shard, {}).features
    assert rows.shape[1] == 2 * shard.width
    dense = rows.matrix.tensor.to_dense().numpy() if hasattr(rows, "matrix") else rows.numpy()
    np.testing.assert_allclose(np.sqrt(np.square(dense[:, : shard.width]).mean(1)), 2, rtol=1e-5)


def test_no_hop_is_the_features_alone() -> None:
    assert Propagated().blocks(3) == 1
    shard = TypedBlocks(papers=30, clients=2, classes=3, features=16).load(0)[0]
    task = TypedNode(encoder=MetapathMeans(hidden=4)).fitted([shard])
    assert task.prepare(shard, {}).features.shape[1] == shard.width
