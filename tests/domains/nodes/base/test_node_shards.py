import logging
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fedgraft.domains.nodes.base.shards import NodeShard, cut, merge_shards, undirected
from fedgraft.errors import InputError
from helpers.toy_nodes import directed, whole

THREE = np.array([0, 0, 1, 1, 2, 2])
NAMES = ("a", "b", "c")


# --- cutting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_ring_of_five_and_a_lone_node_over_three_clients(is_sparse: bool) -> None:
    a, b, c = cut(whole(is_sparse=is_sparse), THREE, NAMES)
    assert (a.name, a.own, a.halo, a.ids.tolist()) == ("a", 2, 2, ["0", "1"])
    # Node 0 hears from 1 and 4, node 1 from 0 and 2; 2 is b's first node, 4 is c's first.
    assert (a.pointers.tolist(), a.senders.tolist()) == ([0, 2, 4], [1, 3, 0, 2])
    assert (a.halo_owner.tolist(), a.halo_place.tolist()) == ([1, 2], [0, 0])
    # Node 2 hears from 1 (a's second) and 3; node 3 from 2 and 4.
    assert (b.pointers.tolist(), b.senders.tolist()) == ([0, 2, 4], [1, 2, 0, 3])
    assert (b.halo_owner.tolist(), b.halo_place.tolist()) == ([0, 2], [1, 0])
    # Node 4 hears from 3 (b's second) and 0 (a's first); node 5 from nobody.
    assert (c.pointers.tolist(), c.senders.tolist()) == ([0, 2, 2], [2, 3])
    assert (c.halo_owner.tolist(), c.halo_place.tolist()) == ([0, 1], [0, 1])
    assert (c.degree.tolist(), c.label.tolist(), c.width) == ([2, 0], [0, 1], 2)
    assert isinstance(c.features, sparse.csr_matrix) == is_sparse, "sparse features stay sparse"
    dense = c.features.toarray() if is_sparse else c.features
    assert dense.tolist() == [[4, 1], [5, 1]]


graphs = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40),
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
    )
)


@given(graphs)
def test_every_edge_is_in_one_shard_at_its_receiver_and_gluing_gives_the_graph_back(
    drawn: tuple[list[tuple[int, int]], list[int]],
) -> None:
    edges, holders = drawn
    owner = np.unique(holders, return_inverse=True)[1]
    graph = whole(edges, [0] * len(owner))
    shards = cut(graph, owner, [str(k) for k in range(owner.max() + 1)])
    expected = sorted({(str(a), str(b)) for one, two in edges if one != two for a, b in ((one, two), (two, one))})
    assert directed(shards) == expected, "addresses point at the right nodes"
    for k, shard in enumerate(shards):
        assert (shard.halo_owner != k).all()
        for v in range(shard.own):
            assert (np.diff(shard.senders[shard.pointers[v] : shard.pointers[v + 1]]) > 0).all()
        assert set(shard.senders[shard.senders >= shard.own]) == set(range(shard.own, shard.own + shard.halo))
    together = merge_shards(shards)
    assert directed([together]) == expected
    assert sorted(together.ids) == sorted(graph.ids)
    assert together.features[:, 0].tolist() == [float(name) for name in together.ids]


def test_one_client_holds_the_graph_as_it_is() -> None:
    graph = whole(is_sparse=True)
    (shard,) = cut(graph, np.zeros(6, np.int64), ["all"])
    assert shard.halo == 0
    assert shard.senders.tolist() == graph.senders.tolist()
    assert merge_shards([shard]).features.toarray().tolist() == graph.features.toarray().tolist()


def test_a_client_may_lack_a_class_or_training_nodes(caplog: pytest.LogCaptureFixture) -> None:
    graph = whole(label=[0, 0, 1, 1, -1, 1], split=[0, 1, 0, 2, -1, 2])
    with caplog.at_level(logging.WARNING):
        a, _, c = cut(graph, THREE, NAMES)
    assert a.classes == c.classes == ("class 0", "class 1")
    assert set(a.label) == {0}
    assert (c.rows("train").tolist(), c.rows("test").tolist()) == ([], [1])
    assert "1 of 3 clients have no training nodes" in caplog.text


def test_a_client_without_nodes_is_an_error() -> None:
    with pytest.raises(InputError, match=r"toy: client 'b' has no nodes \(1 such clients\).* Take fewer clients"):
        cut(whole(), np.array([0, 0, 0, 2, 2, 2]), NAMES)
    with pytest.raises(InputError, match=r"owner of toy must be 0\.\.2; got \"3 of node '5'\""):
        cut(whole(), np.array([0, 0, 1, 1, 2, 3]), NAMES)
    with pytest.raises(InputError, match=r"owner of toy must be of shape \(6,\); got \(5,\)"):
        cut(whole(), np.zeros(5, np.int64), NAMES)


def test_what_cannot_be_put_in_one_place() -> None:
    a, b, c = cut(whole(), THREE, NAMES)
    with pytest.raises(InputError, match=r"a: halo node 1 is node 0 of client 2, which is not among these shards"):
        merge_shards([a, b])
    with pytest.raises(InputError, match=r"a and b cannot be put in one place: their classes differ"):
        merge_shards([a, replace(b, classes=("x", "y", "z")), c])
    with pytest.raises(InputError, match=r"a and b cannot be put in one place: their features differ \(2 against 1\)"):
        merge_shards([a, replace(b, features=b.features[:, :1]), c])


def test_a_shard_survives_the_way_to_a_worker() -> None:
    for shard in cut(whole(is_sparse=True), THREE, NAMES):
        again = pickle.loads(pickle.dumps(shard))
        assert again.senders.tolist() == shard.senders.tolist()
        assert (again.features != shard.features).nnz == 0


# --- edges ------------------------------------------------------------------------------------------------------------


def test_loops_and_repeats_go_with_a_note_and_one_way_is_enough() -> None:
    ends = np.array([[0, 1, 1, 2, 2, 0, 0], [1, 0, 0, 1, 2, 0, 1]])
    pointers, senders, notes = undirected(ends, 4, "edge")
    assert (pointers.tolist(), senders.tolist()) == ([0, 1, 3, 4, 4], [1, 0, 2, 1])
    assert notes == ("2 edges from a node to itself left out.", "2 repeated edges left out.")
    pointers, senders, notes = undirected(np.zeros((2, 0), np.int64), 2, "edge")
    assert (pointers.tolist(), senders.tolist(), notes) == ([0, 0, 0], [], ())


def test_an_edge_beyond_the_nodes_is_named() -> None:
    with pytest.raises(InputError, match=r"e.csv, row 2: there is no node 4; nodes are 0\.\.3 \(1 such edges\)"):
        undirected(np.array([[0, 1], [1, 4]]), 4, "e.csv, row")
    with pytest.raises(InputError, match=r"edge 1: there is no node -1"):
        undirected(np.array([[-1, 1], [1, 3]]), 4, "edge")


# --- values that do not fit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("ids", np.array(["0"], object), r"NodeShard.ids of a must be of shape \(2,\); got \(1,\)"),
        ("features", np.ones((3, 2), np.float32), r"features of a must be of shape \(2, 2\); got \(3, 2\)"),
        ("features", np.ones((2, 2)), "features of a must be an array or a csr_matrix of float32; got 'ndarray of"),
        ("features", sparse.csc_matrix(np.ones((2, 2), np.float32)), "got 'csc_matrix of float32'"),
        ("label", np.array([0, 2]), r"label of a must be -1\.\.1; got '2 at node 1'"),
        ("split", np.array([0, 3], np.int8), r"split of a must be -1\.\.2; got '3 at node 1'"),
        ("label", np.array([0, -1]), "split of a must be -1 where a node has no label; got '0 at 1'"),
        ("pointers", np.array([0, 4]), r"pointers of a must be of shape \(3,\); got \(2,\)"),
        ("pointers", np.array([0, 2, 3]), r"senders of a must be of shape \(3,\); got \(4,\)"),
        ("pointers", np.array([0, 5, 4]), "pointers of a must be ascending from 0; got '4 at 2'"),
        ("pointers", np.array([1, 2, 4]), "pointers of a must be ascending from 0; got '1 at 0'"),
        ("senders", np.array([1, 3, 0, 4], np.int32), r"edge 3, to node 1, comes from node 4; nodes are 0\.\.3"),
        ("senders", np.array([-1, 3, 0, 2], np.int32), r"edge 0, to node 0, comes from node -1; nodes are 0\.\.3"),
        ("halo_place", np.array([0], np.int32), r"halo_place of a must be of shape \(2,\); got \(1,\)"),
        ("halo_place", np.array([0, -1], np.int32), "halo_place of a must be at least 0; got -1"),
        ("halo_owner", np.array([1, 1], np.int32), "must ascend, each node once; halo node 1 is not after"),
    ],
)
def test_arrays_that_do_not_fit(field: str, value: Any, message: str) -> None:
    shard: NodeShard = cut(whole(), THREE, NAMES)[0]
    with pytest.raises(InputError, match=message):
        replace(shard, **{field: value})
    with pytest.raises(InputError, match=r"split must be one of 'train', 'validation', 'test'; got 'tset'"):
        shard.rows("tset")


@pytest.mark.parametrize("is_sparse", [False, True])
def test_features_must_be_finite(is_sparse: bool) -> None:
    graph = whole(is_sparse=is_sparse)
    assert (graph.nodes, graph.edges, graph.degree.tolist()) == (6, 5, [2, 2, 2, 2, 2, 0])
    broken = graph.features.copy()
    broken[3, 1] = np.nan
    with pytest.raises(InputError, match=r"finite numbers; got nan as feature 1 of node '3' \(1 such values\)"):
        replace(graph, features=broken)
