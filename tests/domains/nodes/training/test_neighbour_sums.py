"""FedGCN's sums: from what all clients publish every owner gets the sum over all neighbours of its nodes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.domains.nodes.base.features import FeatureCoding
from fedgraft.domains.nodes.base.shards import cut
from fedgraft.domains.nodes.training.neighbour_sums import Aggregates
from fedgraft.errors import WireError
from helpers.toy_nodes import RING, whole

OWNER = np.array([0, 0, 1, 1, 1, 2])
"""Of the ring 0-1-2-3-4-0 client 0 has 0 and 1, client 1 has 2, 3 and 4; client 2 has node 5, without an edge."""


def rules(is_sparse=False, by_degree=False):
    return Aggregates(FeatureCoding(2, is_sparse), by_degree)


def dense(features):
    return features if isinstance(features, np.ndarray) else features.toarray()


def exchanged(shards, how):
    """Every client's sums."""
    published = {client: how.statistics(shard) for client, shard in enumerate(shards)}
    for arrays in published.values():
        how.check(arrays)
        wire.check(arrays, how.statistics_layout)
    told = how.combine(published)
    for arrays in told.values():
        wire.check(arrays, how.combined_layout)
    return [dense(how.sums(shard, told[client])) for client, shard in enumerate(shards)]


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_ring_by_hand(is_sparse):
    shards = cut(whole(RING, is_sparse=is_sparse), OWNER, ["a", "b", "c"])
    how = rules(is_sparse)
    published = how.statistics(shards[0])
    assert (published["owner"].tolist(), published["place"].tolist()) == ([1, 1], [0, 2])
    # Of node 2 client 0 knows the neighbour 1, of node 4 the neighbour 0: one each, so these are their own features.
    assert dense(how.coding.unpack(published, 2)).tolist() == [[1, 1], [0, 1]]
    first, second, third = exchanged(shards, how)
    assert first.tolist() == [[1 + 4, 2], [0 + 2, 2]]
    assert second.tolist() == [[1 + 3, 2], [2 + 4, 2], [3 + 0, 2]]
    assert third.tolist() == [[0, 0]]
    assert dense(how.sums(shards[0], {})).tolist() == [[1, 1], [0, 1]], "of nobody else nothing is known"


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), clients=st.integers(1, 5), is_sparse=st.booleans(), by_degree=st.booleans())
def test_in_any_cut_sums_are_those_of_the_whole_graph(seed, clients, is_sparse, by_degree):
    g = np.random.default_rng(seed)
    nodes = int(g.integers(clients, 25))
    owner = g.permutation(np.concatenate([np.arange(clients), g.integers(0, clients, nodes - clients)]))
    edges = [(int(a), int(b)) for a, b in g.integers(0, nodes, (3 * nodes, 2)) if a != b]
    graph = whole(edges, label=[0] * nodes, is_sparse=is_sparse)
    adjacency = np.zeros((nodes, nodes))
    adjacency[np.repeat(np.arange(nodes), graph.degree), graph.senders] = 1
    scale = (graph.degree + 1.0) ** -0.5 if by_degree else np.ones(nodes)
    expected = adjacency @ (scale[:, None] * dense(graph.features))
    found = exchanged(cut(graph, owner, [f"c{k}" for k in range(clients)]), rules(is_sparse, by_degree))
    for client, sums in enumerate(found):
        assert sums.dtype == np.float32
        np.testing.assert_allclose(sums, expected[owner == client], rtol=1e-5, atol=1e-5)


def test_what_is_said_of_nodes_that_are_not_there_changes_nothing():
    shards, how = cut(whole(RING), OWNER, ["a", "b", "c"]), rules()
    published = {client: how.statistics(shard) for client, shard in enumerate(shards)}
    nonsense = np.array([0, 2**32 - 1], np.uint32)
    published[1] |= {"place": nonsense, "owner": np.zeros(2, np.uint32)}
    how.check(published[1])
    told = how.combine(published)
    assert told[0]["place"].tolist() == nonsense.tolist()
    assert how.sums(shards[0], told[0])[1].tolist() == [0, 1], "what is known at home"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"place": [0]}, "2 owners of nodes at 1 places"),
        ({"features": [[0, 1]]}, "features of 1 nodes where 2 are meant"),
        ({"features": [[0, 1], [np.inf, 1]]}, "a feature is not finite"),
    ],
)
def test_what_no_client_can_have_published_is_refused(change, reason):
    how = rules()
    arrays = how.statistics(cut(whole(RING), OWNER, ["a", "b", "c"])[0])
    arrays |= {key: np.array(value, arrays[key].dtype) for key, value in change.items()}
    with pytest.raises(WireError, match=reason):
        how.check(arrays)
