"""What clients tell each other once, by hand, and what no client can have told."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fedgraft import wire
from fedgraft.domains.nodes.base.features import FeatureCoding
from fedgraft.domains.nodes.base.shards import cut
from fedgraft.domains.nodes.training.halo_setup import HaloSetup, halo_of, thinned, without_edges
from fedgraft.errors import WireError
from helpers.toy_nodes import RING, directed, whole

OWNER = np.array([0, 0, 1, 1, 1, 2])
"""Of the ring 0-1-2-3-4-0 client 0 has 0 and 1, client 1 has 2, 3 and 4; client 2 has node 5, without an edge."""


def shards_of(is_sparse=False, edges=RING, owner=OWNER):
    return cut(whole(edges, is_sparse=is_sparse), owner, [f"c{k}" for k in range(owner.max() + 1)])


def setup(is_sparse=False, features=True):
    return HaloSetup(FeatureCoding(2, is_sparse), features)


def published(shards, rules):
    found = {client: rules.statistics(shard) for client, shard in enumerate(shards)}
    for arrays in found.values():
        rules.check(arrays)
        wire.check(arrays, rules.statistics_layout)
    return found


def received(shards, rules, found):
    """What every client makes of what it gets back: features, known, degree, needed."""
    told = dict(rules.combine(found))
    for arrays in told.values():
        wire.check(arrays, rules.combined_layout)
    return [rules.received(shard, told.get(client, {})) for client, shard in enumerate(shards)]


def dense(features):
    return features if isinstance(features, np.ndarray) else features.toarray()


@pytest.mark.parametrize("is_sparse", [False, True])
def test_where_rows_are_encrypted_sparse_ones_travel_with_their_zeros(is_sparse):
    shards, rules = shards_of(is_sparse), HaloSetup(FeatureCoding(2, is_sparse), True, encrypted=True)
    found = published(shards, rules)
    assert found[0]["features"].tolist() == [[0, 1], [1, 1]]
    first, _, third = received(shards, rules, found)
    assert sparse.issparse(first[0]) == sparse.issparse(third[0]) == is_sparse
    assert dense(first[0]).tolist() == [[2, 1], [4, 1]]
    assert rules.handed_on == ("degree", "features")
    assert setup(is_sparse).handed_on == ()
    places = rules.sent_places(7, found[1])
    assert {name: each.tolist() for name, each in places.items()} == {k: [[7, 0], [7, 2]] for k in rules.handed_on}
    told = rules.combine(found)[0]
    known = rules.received_places(halo_of(shards[0]), told)
    assert known["degree"].tolist() == known["features"].tolist() == [[1, 0], [1, 2]]
    with pytest.raises(WireError, match="0 bytes of marks of 2 nodes"):
        rules.received_places(halo_of(shards[0]), {**told, "known": told["known"][:0]})
    with pytest.raises(WireError, match="encrypted rows that are not of 2 nodes"):
        rules.received_places(halo_of(shards[0]), {**told, "degree": told["degree"][:1]})


def test_weights_that_the_server_could_not_see_are_looked_at_where_they_are_opened():
    rules = HaloSetup(FeatureCoding(2, False), False, weighted=True, encrypted=True)
    shards = shards_of()
    found = published(shards, rules)
    found[1]["degree"] = np.array([1, -1], np.float32)
    rules.check(found[1])  # sealed, it is bytes
    with pytest.raises(WireError, match="sums of weights that are not finite and at least 0"):
        received(shards, rules, found)


def test_what_is_published_by_hand():
    found = published(shards_of(), setup())
    one, two, three = ({key: array.tolist() for key, array in found[client].items()} for client in range(3))
    # Nodes 0 and 1 neighbour nodes 4 (place 2 at client 1) and 2 (place 0); both have two neighbours.
    assert one == {
        "nodes": [2],
        "owner": [1, 1],
        "place": [0, 2],
        "boundary": [0b11000000],
        "degree": [2, 2],
        "features": [[0, 1], [1, 1]],
    }
    assert (two["boundary"], two["owner"], two["place"]) == ([0b10100000], [0, 0], [0, 1])
    assert two["features"] == [[2, 1], [4, 1]]
    assert three == {"nodes": [1], "owner": [], "place": [], "boundary": [0], "degree": [], "features": []}


@pytest.mark.parametrize("is_sparse", [False, True])
def test_everybody_gets_what_it_needs(is_sparse):
    shards, rules = shards_of(is_sparse), setup(is_sparse)
    first, second, third = received(shards, rules, published(shards, rules))
    for (features, known, degree, needed), wanted, places in (
        (first, [[2, 1], [4, 1]], [0, 1]),
        (second, [[0, 1], [1, 1]], [0, 2]),
    ):
        assert sparse.issparse(features) == is_sparse
        assert dense(features).tolist() == wanted
        assert (known.tolist(), degree.tolist(), needed.tolist()) == ([True, True], [2, 2], places)
    assert third[0].shape == (0, 2)
    assert [len(each) for each in third[1:]] == [0, 0, 0]


@pytest.mark.parametrize("is_sparse", [False, True])
def test_features_stay_at_home_if_they_are_not_shared(is_sparse):
    shards, rules = shards_of(is_sparse), setup(is_sparse, features=False)
    found = published(shards, rules)
    assert all(set(arrays) == {"nodes", "owner", "place", "boundary", "degree"} for arrays in found.values())
    features, known, degree, needed = received(shards, rules, found)[0]
    assert (dense(features).tolist(), known.tolist()) == ([[0, 0], [0, 0]], [False, False])
    assert (degree.tolist(), needed.tolist()) == ([2, 2], [0, 1])


@pytest.mark.parametrize("is_sparse", [False, True])
def test_of_a_client_that_did_not_answer_nothing_is_known(is_sparse):
    three = np.array([0, 0, 1, 1, 2, 2])
    shards, rules = shards_of(is_sparse, owner=three), setup(is_sparse)
    found = published(shards, rules)
    del found[2]
    features, known, degree, needed = received(shards, rules, found)[0]
    assert (known.tolist(), degree.tolist(), needed.tolist()) == ([True, False], [2, 0], [1])
    assert dense(features).tolist() == [[2, 1], [0, 0]]
    features, known, degree, needed = rules.received(shards[0], {})
    assert (known.any(), degree.any(), len(needed)) == (False, False, 0)
    assert dense(features).tolist() == [[0, 0], [0, 0]]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), clients=st.integers(1, 5), is_sparse=st.booleans(), most=st.integers(0, 3))
def test_in_any_cut_everybody_learns_of_its_halo_what_is_so(seed, clients, is_sparse, most):
    g = np.random.default_rng(seed)
    nodes = int(g.integers(clients, 25))
    owner = g.permutation(np.concatenate([np.arange(clients), g.integers(0, clients, nodes - clients)]))
    edges = [(int(a), int(b)) for a, b in g.integers(0, nodes, (3 * nodes, 2)) if a != b]
    graph = whole(edges, label=[0] * nodes, is_sparse=is_sparse)
    shards = [thinned(shard, most) for shard in cut(graph, owner, [f"c{k}" for k in range(clients)])]
    rules = setup(is_sparse)
    asked = [set(zip(shard.halo_owner.tolist(), shard.halo_place.tolist(), strict=True)) for shard in shards]
    for client, (features, known, degree, needed) in enumerate(received(shards, rules, published(shards, rules))):
        shard = shards[client]
        for slot, (k, v) in enumerate(zip(shard.halo_owner, shard.halo_place, strict=True)):
            assert degree[slot] == shards[k].degree[v]
            assert dense(features)[slot].tolist() == dense(shards[k].features)[v].tolist()
        assert needed.tolist() == sorted({v for places in asked for k, v in places if k == client})
        assert known.all(), "thinned or not, a node with a neighbour elsewhere has one"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"nodes": [0]}, "a client without nodes"),
        ({"nodes": [2**32 - 1]}, r"1 bytes of marks of 4294967295 nodes"),
        ({"boundary": [0b11000000, 0]}, r"2 bytes of marks of 2 nodes"),
        ({"boundary": [0b01100000]}, "node 2 has neighbours elsewhere, but there are 2 nodes"),
        ({"degree": [2]}, "degrees of 1 nodes where 2 are meant"),
        ({"place": [0]}, "2 owners of nodes at 1 places"),
        ({"place": [2, 0]}, "addresses must ascend, each node once"),
        ({"place": [2, 2]}, "addresses must ascend, each node once"),
        ({"owner": [1, 0], "place": [0, 2]}, "addresses must ascend, each node once"),
        ({"features": [[0, 1]]}, "features of 1 nodes where 2 are meant"),
        ({"features": [[0, 1], [np.nan, 1]]}, "a feature is not finite"),
    ],
)
def test_what_no_client_can_have_published_is_refused(change, reason):
    rules = setup()
    arrays = rules.statistics(shards_of()[0])
    arrays |= {key: np.array(value, arrays[key].dtype) for key, value in change.items()}
    with pytest.raises(WireError, match=reason):
        rules.check(arrays)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"counts": [1]}, "3 columns where 1 are meant"),
        ({"counts": [3]}, "3 features, 3 columns and 1 counts of 2 nodes"),
        ({"values": [1, 1]}, "2 features, 3 columns and 2 counts of 2 nodes"),
        ({"gaps": [1, 2, 0]}, "feature 2 where there are 2"),
        ({"gaps": [1, 0, 255]}, "2 columns where 3 are meant"),
        ({"values": [1, np.inf, 1]}, "a feature is not finite"),
    ],
)
def test_sparse_rows_that_nobody_can_have_made_are_refused(change, reason):
    rules = setup(is_sparse=True)
    arrays = rules.statistics(shards_of(is_sparse=True)[0])
    assert {key: arrays[key].tolist() for key in ("counts", "gaps", "values")} == {
        "counts": [1, 2],
        "gaps": [1, 0, 1],
        "values": [1, 1, 1],
    }
    arrays |= {key: np.array(value, arrays[key].dtype) for key, value in change.items()}
    with pytest.raises(WireError, match=reason):
        rules.check(arrays)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(0, 12),
    width=st.sampled_from([1, 3, 255, 256, 700, 70_000]),
    shuffled=st.booleans(),
)
def test_sparse_rows_travel_as_they_are(seed, rows, width, shuffled):
    g = np.random.default_rng(seed)
    parts = [g.permutation(width)[: g.integers(0, min(width, 9) + 1)] for _ in range(rows)]
    columns = np.concatenate([np.zeros(0, np.int64), *(part if shuffled else np.sort(part) for part in parts)])
    pointers = np.cumsum([0, *map(len, parts)])
    values = g.standard_normal(len(columns)).astype(np.float32)
    matrix = sparse.csr_matrix((values, columns, pointers), shape=(rows, width))
    coding, before = FeatureCoding(width, True), matrix.indices.copy()
    found = coding.unpack(coding.pack(matrix), rows)
    assert matrix.indices.tolist() == before.tolist(), "what is packed stays as it is"
    assert found.shape == matrix.shape
    assert abs(found - matrix).nnz == 0


def test_thinning_leaves_so_many_neighbours_elsewhere_and_all_at_home():
    star = [(0, k) for k in range(1, 10)] + [(1, 2), (1, 5)]
    shards = cut(whole(star, label=[0] * 10), np.array([0, 0, 0, *[1] * 7]), ["here", "there"])
    full = directed(shards)
    for most in range(1, 9):
        here = thinned(shards[0], most)
        kept = directed([here, shards[1]])
        assert set(kept) <= set(full)
        assert sum(receiver == "0" and sender not in "12" for receiver, sender in kept) == min(most, 7)
        assert {("0", "1"), ("0", "2"), ("1", "2"), ("1", "5"), ("2", "1")} <= set(kept)
        assert thinned(here, most) is here
        assert here.halo == len({sender for receiver, sender in kept if receiver in "012" and sender not in "012"})
    assert thinned(shards[0], 0) is shards[0]
    assert thinned(shards[0], 7) is shards[0]
    spread = thinned(shards[0], 2)
    assert [s for r, s in directed([spread, shards[1]]) if r == "0"] == ["1", "2", "3", "7"], "evenly over their order"


def test_without_edges_a_halo_shrinks_to_those_that_are_left():
    shard = shards_of()[0]
    assert (shard.senders.tolist(), shard.halo) == ([1, 3, 0, 2], 2)
    left = without_edges(shard, np.array([True, False, True, True]))
    assert (left.senders.tolist(), left.pointers.tolist()) == ([1, 0, 2], [0, 1, 3])
    assert (left.halo_owner.tolist(), left.halo_place.tolist()) == ([1], [0])
    none = without_edges(shard, shard.senders < shard.own)
    assert (none.halo, none.senders.tolist(), none.degree.tolist()) == (0, [1, 0], [1, 1])


def test_marks_cost_little_more_than_their_message():
    """Each client's took 64 times its message: a number for every node that it says it has."""
    rules, size = setup(), 1 << 20
    one = {**rules.statistics(shards_of()[2]), "nodes": np.array([8 * size], np.uint32)}
    one["boundary"] = np.zeros(size, np.uint8)
    found = dict.fromkeys(range(4), one)
    tracemalloc.start()
    rules.check(one)
    for client, told in rules.combine(found).items():
        assert len(told["needed"]) == size, client
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * size


def test_places_that_no_client_has_are_known_by_nobody():
    rules, shards = setup(), shards_of()
    found = {client: rules.statistics(shard) for client, shard in enumerate(shards)}
    found[0] = {**found[0], "place": np.array([1, 2**32 - 1], np.uint32)}  # client 1 published its places 0 and 2
    _, known, degree, _ = received(shards, rules, found)[0]
    assert known.tolist() == [False, False]
    assert degree.tolist() == [0, 0]
    assert received(shards, rules, found)[1][3].tolist() == [1]
