import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.domains.graphs.shards import (
    check_graphs,
    check_labels,
    deal,
    merge_shards,
    split_graphs,
    stratified,
    tidy_edges,
    with_degrees,
)
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.constant import agreement
from fedgraft.errors import InputError
from fedgraft.nn.sparse import ranges
from helpers.toy_graphs import PATH, STAR, TRIANGLE, shard


def three():
    return shard([TRIANGLE, [], STAR], [3, 2, 4], [0, 1, 1], split=[0, 1, 2], kind=[0, 1, 1, 0, 0, 1, 0, 0, 1], kinds=2)


# --- the shard --------------------------------------------------------------------------------------------------------


def test_worked_example():
    own = three()
    # A triangle of nodes 0..2, two lone nodes 3 and 4, a star around node 5: each edge both ways, by receiver.
    assert own.edges.T.tolist() == [
        [0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1],
        [5, 6], [5, 7], [5, 8], [6, 5], [7, 5], [8, 5],
    ]  # fmt: skip
    assert own.edges.dtype == np.int32
    assert own.node_starts.tolist() == [0, 3, 5, 9]
    assert own.edge_starts.tolist() == [0, 6, 6, 12]
    assert own.degree.tolist() == [2, 2, 2, 0, 0, 3, 1, 1, 1]
    assert (own.graphs, own.nodes) == (3, 9)
    assert [own.rows(split).tolist() for split in ("train", "validation", "test")] == [[0], [1], [2]]


def test_taking_graphs_moves_their_nodes_and_edges():
    part = three().take(np.array([2, 1]))
    assert part.edges.T.tolist() == [[0, 1], [0, 2], [0, 3], [1, 0], [2, 0], [3, 0]]
    assert part.sizes.tolist() == [4, 2]
    assert part.kind.tolist() == [1, 0, 0, 1, 0, 0]
    assert (part.label.tolist(), part.split.tolist(), part.ids.tolist()) == ([1, 1], [2, 1], [2, 1])
    assert part.edges.dtype == np.int32
    assert three().take(np.array([], np.int64)).nodes == 0


@given(st.lists(st.integers(0, 2), max_size=6))
def test_taking_is_taking_one_after_the_other(graphs):
    own = three()
    part = own.take(np.array(graphs, np.int64))
    for place, graph in enumerate(graphs):
        alone = own.take(np.array([graph]))
        again = part.take(np.array([place]))
        assert again.edges.tolist() == alone.edges.tolist()
        assert again.kind.tolist() == alone.kind.tolist()


def test_degrees_as_kinds():
    own = with_degrees(three())
    assert own.kind.tolist() == [2, 2, 2, 0, 0, 3, 1, 1, 1]
    assert (own.kinds, own.kind_names, own.degrees) == (4, ("0", "1", "2", "3"), True)
    assert with_degrees(three(), 3).kind.tolist() == [2, 2, 2, 0, 0, -1, 1, 1, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": [0]}, r"GraphShard.kind of toy must be of shape \(5,\); got \(1,\)"),
        ({"attributes": [[1.0]]}, r"GraphShard.attributes of toy must be of shape \(5, 1\); got \(1, 1\)"),
        ({"label": [0]}, r"GraphShard.label of toy must be of shape \(2,\); got \(1,\)"),
    ],
)
def test_a_shard_of_arrays_that_do_not_fit(change, message):
    with pytest.raises(InputError, match=message):
        shard(**{"edges": [TRIANGLE, []], "sizes": [3, 2], "label": [0, 1], **change})


# --- edges and checks -------------------------------------------------------------------------------------------------


def test_edges_are_made_symmetric_and_what_goes_is_told():
    listed = np.array([[0, 1, 0, 2, 2, 0], [1, 0, 1, 2, 1, 1]])
    edges, notes = tidy_edges(listed, np.array([3]), "edge")
    assert edges.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert notes == ("1 edges from a node to itself left out.", "2 repeated edges left out.")
    assert tidy_edges(np.zeros((2, 0), np.int64), np.array([3]), "edge")[0].shape == (2, 0)


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ([[0, 5], [1, 0]], r"A\.txt, line 2: there is no node 6; nodes are 1\.\.5 \(1 such edges\)"),
        ([[0, -1], [1, 0]], r"line 2: there is no node 0; nodes are 1\.\.5"),
        ([[0, 1], [3, 2]], r"line 1: nodes 1 and 4 belong to different graphs; .* \(1 such edges\)"),
    ],
)
def test_bad_edges(ends, message):
    with pytest.raises(InputError, match=message):
        tidy_edges(np.array(ends), np.array([3, 2]), "A.txt, line", base=1)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (shard([TRIANGLE, []], [3, 0], [0, 1]), "toy: graph 1 has no nodes; every graph needs one"),
        (
            shard([[], []], [1, 2], [0, 1], attributes=[[0, 0], [0, 0], [0, np.nan]]),
            "toy: attribute '1' must be a finite number; got nan at node 1 of graph 1",
        ),
        (shard([[]], [1], [0], attributes=[[np.inf]]), "attribute '0' must be a finite number; got inf at node 0"),
    ],
)
def test_bad_graphs(own, message):
    with pytest.raises(InputError, match=message):
        check_graphs(own)


def test_a_graph_without_edges_is_sound():
    check_graphs(three())
    check_labels(three())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 0, 0], "toy: all 3 graphs have the class 'class 0'; graphs of at least two classes are needed"),
        ([0, 1], r"toy: at least 3 graphs are needed, .* got 2"),
    ],
)
def test_bad_labels(labels, message):
    with pytest.raises(InputError, match=message):
        check_labels(shard([[]] * len(labels), [1] * len(labels), labels))


# --- splits and shares ------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 3), min_size=3, max_size=80), st.integers(0, 9))
def test_a_split_is_stratified_and_leaves_no_part_empty(labels, seed):
    label = np.array(labels)
    n = len(label)
    parts = split_graphs(label, np.random.default_rng(seed))
    held = max(1, round(n / 10))
    assert np.bincount(parts, minlength=3).tolist() == [n - 2 * held, held, held]
    classes, counts = np.unique(label, return_counts=True)
    if n - 2 * held >= len(classes):
        assert set(label[parts == 0]) == set(label)
        for each, count in zip(classes, counts, strict=True):
            for part in (1, 2):  # one graph of each class is set apart before: a tenth of slightly less
                assert abs(((parts == part) & (label == each)).sum() - held * count / n) < 2


def test_a_split_of_whole_tens_is_exact():
    label = np.repeat([0, 1, 2], [50, 30, 20])
    parts = split_graphs(label, np.random.default_rng(0))
    for part in (1, 2):
        counts = np.bincount(label[parts == part], minlength=3)
        assert np.abs(counts - [5, 3, 2]).max() <= 1
    assert (split_graphs(label, np.random.default_rng(0)) == parts).all()
    assert (split_graphs(label, np.random.default_rng(1)) != parts).any()
    with pytest.raises(InputError, match="split_graphs: the number of a client's graphs must be at least 3; got 2"):
        split_graphs(label[:2], np.random.default_rng(0))


def test_a_stratified_part():
    label = np.repeat([0, 1], [80, 20])
    rows = stratified(label, 10, np.random.default_rng(0))
    assert np.bincount(label[rows]).tolist() == [8, 2]
    assert (np.diff(rows) > 0).all()


@pytest.mark.parametrize("alpha", [None, 0.5, 5.0])
def test_shares_are_all_of_the_graphs_and_each_can_be_learnt_from(alpha):
    label = np.arange(400) % 3
    dealt = deal(label, 10, alpha, np.random.default_rng(1), "toy")
    assert sorted(np.concatenate(dealt).tolist()) == list(range(400))
    assert all(len(rows) >= 3 and len(np.unique(label[rows])) > 1 for rows in dealt)
    sizes = [len(rows) for rows in dealt]
    assert (max(sizes) - min(sizes) <= 1) == (alpha is None)


@pytest.mark.parametrize(
    ("labels", "clients", "alpha", "message"),
    [
        ([0, 1] * 10, 10, None, r"toy: 20 graphs of 2 classes dealt to 10 clients in equal shares .* fewer clients\."),
        ([0, 1] * 20, 10, 0.01, r"with alpha = 0\.01 .* take fewer clients or a larger alpha"),
        ([0] * 20, 2, None, "20 graphs of 1 classes"),
    ],
)
def test_shares_that_cannot_be(labels, clients, alpha, message):
    with pytest.raises(InputError, match=message):
        deal(np.array(labels), clients, alpha, np.random.default_rng(0), "toy")


# --- all clients ------------------------------------------------------------------------------------------------------


def test_merging_keeps_graphs_and_splits():
    other = shard([PATH], [3], [1], split=[2], kind=[1, 0, 1], kinds=2, name="other")
    merged = merge_shards([three(), other])
    assert merged.name == "all clients"
    assert merged.sizes.tolist() == [3, 2, 4, 3]
    assert merged.split.tolist() == [0, 1, 2, 2]
    assert merged.take(np.array([3])).edges.tolist() == other.edges.tolist()
    assert merged.edges.dtype == np.int32
    assert merged.take(np.arange(3)).edges.tolist() == three().edges.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kinds": 3}, r"of toy and other cannot be put in one place: their kinds differ \(2 against 3\)"),
        ({"attributes": [[1.0]] * 3}, r"their attributes differ \(0 against 1\)"),
        ({"label": [3]}, r"their classes differ \(class 0, class 1 against class 0, class 1, class 2 and 1 more\)"),
    ],
)
def test_clients_that_one_model_does_not_fit(change, message):
    options = {"kind": [1, 0, 1], "kinds": 2, "label": [1], **change}
    with pytest.raises(InputError, match=message):
        merge_shards([three(), shard([PATH], [3], name="other", **options)])


def test_accuracy_weighs_by_graphs():
    one = shard([[]] * 4, [1] * 4, [0, 1, 1, 1], split=[2, 2, 2, 1])
    other = shard([[]] * 2, [1] * 2, [0, 1], split=[0, 2])
    scores = agreement(Classes(), [one, other], [np.array([0, 0, 0, 1]), np.array([1, 1])])
    assert scores == {"validation": 1.0, "test": 0.5}
    assert np.isnan(agreement(Classes(), [one.take(np.array([0]))], [np.array([0])])["validation"])


def test_ranges():
    assert ranges(np.array([5, 9, 0]), np.array([2, 0, 3])).tolist() == [5, 6, 0, 1, 2]
