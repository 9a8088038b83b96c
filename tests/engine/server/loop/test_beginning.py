"""Nodes of others that a client may name: those that its edges were joined to."""

import numpy as np

from fedgraft.contracts import Halo
from fedgraft.engine.server.beginning import Beginning


def nodes(*addresses):
    owner, place = np.array(addresses, np.int64).reshape(-1, 2).T
    return Halo(owner, place)


def test_a_client_names_what_its_edges_were_joined_to_and_nothing_else():
    before = Beginning(joined={0: nodes((1, 5), (1, 7), (2, 5)), 1: nodes((0, 3)), 2: nodes()})
    assert before.misfit(0, nodes((1, 5), (2, 5))) == ""
    assert before.misfit(2, nodes()) == ""
    assert before.misfit(0, nodes((1, 5), (2, 7))) == "names node 7 of client 2, which none of its edges was joined to"
    assert before.misfit(1, nodes((0, 5))) == "names node 5 of client 0, which none of its edges was joined to"
    assert "which none" in before.misfit(2, nodes((0, 3)))
    assert "which none" in before.misfit(3, nodes((0, 3)))


def test_nothing_is_wrong_where_nobody_knows():
    assert Beginning().misfit(0, nodes((1, 5))) == ""
