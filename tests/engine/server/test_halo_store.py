"""The halo store: who is sent which rows, by hand and in general."""

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.engine.server.halo import Halo, HaloRows, HaloStore
from fedgraft.errors import WireError


def halo(*addresses):
    return Halo(*(np.array(column, np.int64).reshape(-1) for column in zip(*addresses, strict=True)))


def rows_of(places, *values):
    return HaloRows(np.array(places, np.int64), np.array(values, np.float32).reshape(len(places), -1))


THREE = HaloStore([2, 3, 1], [halo((1, 0), (2, 0)), halo((0, 1)), halo((1, 0), (1, 2))], [1])
"""Client 0 needs nodes of 1 and 2; client 1 one of 0; client 2 two of 1."""


def pulled(state, client):
    (part,) = THREE.pull(state, client)
    return dict(zip(part.slot.tolist(), part.rows[:, 0].tolist(), strict=True))


def test_rows_go_to_those_who_need_them_once():
    state = THREE.start()
    assert pulled(state, 0) == {}
    THREE.publish(state, 1, [rows_of([0, 2], 5, 7)])
    assert pulled(state, 0) == {0: 5}
    assert pulled(state, 0) == {}
    assert pulled(state, 2) == {0: 5, 1: 7}
    THREE.publish(state, 2, [rows_of([0], 9)])
    THREE.publish(state, 1, [rows_of([2], 8)])
    assert pulled(state, 0) == {1: 9}
    assert pulled(state, 2) == {1: 8}
    assert pulled(state, 1) == {}


def test_who_pulls_seldom_gets_the_newest_of_each():
    state = THREE.start()
    for value in (1, 2, 3):
        THREE.publish(state, 1, [rows_of([0], value)])
    assert pulled(state, 2) == {0: 3}


def test_rows_are_looked_up_whenever_they_were_published_and_count_as_not_sent():
    state = THREE.start()
    THREE.publish(state, 1, [rows_of([0], 5)])
    for _ in range(2):
        (found,) = THREE.look_up(state, 2, [np.array([0, 1])])
        assert (found.slot.tolist(), found.rows.tolist()) == ([0], [[5]]), "its other node was never published"
    assert pulled(state, 2) == {0: 5}
    (found,) = THREE.look_up(state, 2, [np.array([0, 1])])
    assert found.slot.tolist() == [0], "nor does a pull take it away"


def test_the_nodes_of_an_owner_that_others_need_are_known():
    assert [THREE.needed(client).tolist() for client in range(3)] == [[1], [0, 2], [0]]


def test_the_state_is_a_tree():
    state = THREE.start()
    THREE.publish(state, 1, [rows_of([0], 5)])
    again = wire.unpack(wire.pack(state))
    assert pulled(again, 0) == pulled(state, 0) == {0: 5}


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (rows_of([1], 5), "nobody needs, among 1..1"),
        (rows_of([3], 5), "nobody needs, among 3..3"),
        (rows_of([-1], 5), "nobody needs, among -1..-1"),
        (HaloRows(np.array([0]), np.ones((1, 2), np.float32)), r"shape \[1, 2\] for 1 nodes and width 1"),
    ],
)
def test_what_is_not_a_clients_to_push_is_refused_whole(sent, reason):
    state = THREE.start()
    with pytest.raises(WireError, match=reason):
        THREE.publish(state, 1, [sent])
    assert state["time"] == 0


@pytest.mark.parametrize("address", [(0, 0), (3, 0), (-1, 0), (1, 3), (1, -1)])
def test_addresses_of_nodes_that_are_not_there_are_refused(address):
    with pytest.raises(
        WireError, match=rf"client 0 needs node {address[1]} of client {address[0]}, where there is none"
    ):
        HaloStore([2, 3], [halo(address), halo((0, 0))], [1])


@pytest.mark.parametrize("seed", range(5))
def test_a_client_always_ends_with_what_was_last_published(seed):
    """Any order of publishing and pulling: after a pull, a client's copy of its halo is the owners' last word."""
    g = np.random.default_rng(seed)
    nodes = [4, 6, 5]
    halos = []
    for client in range(3):
        addresses = [(k, v) for k in range(3) for v in range(nodes[k]) if k != client and g.random() < 0.6]
        halos.append(halo(*addresses))
    store = HaloStore(nodes, halos, [2, 3])
    state = store.start()
    last = [np.zeros((3, 6, width), np.float32) for width in (2, 3)]
    copies = [[np.zeros((len(own.owner), width), np.float32) for own in halos] for width in (2, 3)]
    for _ in range(60):
        client = int(g.integers(3))
        if g.random() < 0.5:
            sent = []
            for layer, width in enumerate((2, 3)):
                place = np.flatnonzero(
                    np.isin(np.arange(nodes[client]), store.needed(client)) & (g.random(nodes[client]) < 0.5)
                )
                rows = g.standard_normal((len(place), width)).astype(np.float32)
                last[layer][client, place] = rows
                sent.append(HaloRows(place, rows))
            store.publish(state, client, sent)
        else:
            for layer, part in enumerate(store.pull(state, client)):
                copies[layer][client][part.slot] = part.rows
                owner, place = halos[client]
                np.testing.assert_array_equal(copies[layer][client], last[layer][owner, place])
