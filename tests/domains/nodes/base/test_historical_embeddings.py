"""What a client remembers of hidden states, by hand and as a tree."""

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts.values import HaloRows
from fedgraft.domains.nodes.base.historical_embeddings import States
from fedgraft.errors import WireError
from helpers.toy_runs import same


def at(*places):
    return np.array(places, np.int64)


def rows(*values, width=2):
    return np.repeat(np.array(values, np.float32)[:, None], width, axis=1)


def halo_rows(places, *values, width=2):
    return HaloRows(at(*places), rows(*values, width=width).reshape(-1, width))


def pushed(found):
    return [dict(zip(each.slot.tolist(), each.rows[:, 0].tolist(), strict=True)) for each in found]


def written():
    """Three own nodes and two of others, two layers; own nodes 0 and 2 are written in the first, 2 in the second."""
    states = States(3, 2, (2, 1))
    states.write(0, at(2, 0), rows(20, 10))
    states.write(1, at(2), rows(5, width=1))
    return states


def test_nothing_is_known_at_first():
    states = States(3, 2, (2, 1))
    assert [known.any() for known in states.known] == [False, False]
    assert [layer.shape for layer in states.rows] == [(5, 2), (5, 1)]
    assert pushed(states.changed(at(0, 1, 2))) == [{}, {}]


def test_what_is_written_is_known_and_pushed_once():
    states = written()
    assert [known.tolist() for known in states.known] == [[1, 0, 1, 0, 0], [0, 0, 1, 0, 0]]
    assert states.rows[0][[0, 2]].tolist() == [[10, 10], [20, 20]]
    assert pushed(states.changed(at(1, 2))) == [{2: 20}, {2: 5}], "node 0 is nobody's business, node 1 has no state yet"
    assert pushed(states.changed(at(1, 2))) == [{}, {}]
    states.write(0, at(2), rows(21))
    assert pushed(states.changed(at(1, 2))) == [{2: 21}, {}]
    assert pushed(states.changed(at(0))) == [{0: 10}, {}], "whoever comes later is pushed, too"


def test_rows_that_are_pushed_do_not_change_afterwards():
    states = written()
    (first, _) = states.changed(at(0, 2))
    states.write(0, at(0, 2), rows(1, 1))
    assert pushed([first]) == [{0: 10, 2: 20}]


def test_what_is_received_is_of_the_halo_and_pushed_to_nobody():
    states = written()
    states.receive([halo_rows([1], 7), halo_rows([0, 1], 8, 9, width=1)])
    assert [known.tolist() for known in states.known] == [[1, 0, 1, 0, 1], [0, 0, 1, 1, 1]]
    assert states.rows[0][4].tolist() == [7, 7]
    assert states.rows[1][3:, 0].tolist() == [8, 9]
    assert pushed(states.changed(at(0, 1, 2))) == [{0: 10, 2: 20}, {2: 5}]
    states.receive([halo_rows([]), halo_rows([0], 80, width=1)])
    assert (states.rows[0][4].tolist(), states.rows[1][3:, 0].tolist()) == ([7, 7], [80, 9])


@pytest.mark.parametrize("own", [3, 8, 13])
def test_nodes_that_are_not_in_the_halo_are_refused_before_anything_is_taken_in(own):
    states = States(own, 2, (2, 1))
    with pytest.raises(WireError, match=r"^a row of halo node 2 where there are 2$"):
        states.receive([halo_rows([0], 7), halo_rows([0, 2], 8, 9, width=1)])
    assert not any(known.any() for known in states.known)


@pytest.mark.parametrize(("own", "halo"), [(3, 2), (8, 8), (9, 0), (1, 15)])
def test_a_tree_takes_it_up_again(own, halo):
    g = np.random.default_rng(own)
    states = States(own, halo, (2, 1))
    for layer, width in enumerate((2, 1)):
        nodes = np.flatnonzero(g.random(own) < 0.6)
        states.write(layer, nodes, g.standard_normal((len(nodes), width)).astype(np.float32))
    received = np.flatnonzero(g.random(halo) < 0.5)
    states.receive(
        [HaloRows(received, g.standard_normal((len(received), width)).astype(np.float32)) for width in (2, 1)]
    )
    states.changed(np.arange(0, own, 2))
    kept = states.to_tree()
    tree = wire.unpack(wire.pack(kept))
    empty = States(own, halo, (2, 1))
    again = empty.opened(tree)
    for name in ("rows", "known", "unpublished"):
        assert same(getattr(again, name), getattr(states, name)), name
    assert same(again.to_tree(), kept)
    assert same(empty.to_tree(), States(own, halo, (2, 1)).to_tree()), "what opens a tree stays as it is"
    states.write(0, at(0), rows(99))
    assert same(tree, kept), "a tree is a copy"
    for opened in (empty.opened(tree), states.opened(tree), empty.opened(kept), States(own, halo, (2, 1), kept)):
        opened.write(0, at(0), rows(98))
        opened.changed(at(0))
        assert opened.rows[0][0].tolist() == [98, 98]
        assert same(tree, kept), "and what is opened is one too"
    assert states.rows[0][0].tolist() == [99, 99]


def test_opened_without_a_tree_nothing_is_known():
    states = written()
    states.receive([halo_rows([1], 7), halo_rows([0], 8, width=1)])
    opened = states.opened(None)
    assert same(opened.to_tree(), States(3, 2, (2, 1)).to_tree())
    assert pushed(opened.changed(at(0, 1, 2))) == [{}, {}]
    assert pushed(states.changed(at(0, 1, 2))) == [{0: 10, 2: 20}, {2: 5}]


def test_without_layers_there_is_nothing_to_remember():
    states = States(3, 2, ())
    states.receive([])
    assert states.changed(at(0)) == []
    assert states.opened(states.to_tree()).rows == []
