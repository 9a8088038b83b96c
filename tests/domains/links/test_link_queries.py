"""Questions about pairs: whose both nodes are, and whose a new node is."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedgraft.domains.links.queries import split_pairs_asked
from fedgraft.domains.nodes.base.shards import cut
from fedgraft.errors import InputError
from helpers.toy_nodes import whole

NEW = pd.DataFrame({"node": ["new"], "0": [7.0], "1": [1.0]})


def shards():
    """The ring 0 1 2 3 4 and the lonely node 5; client "a" has 0, 1, 2, client "b" the others."""
    return cut(whole(), np.array([0, 0, 0, 1, 1, 1]), ("a", "b"))


def asked(*pairs, among=None, columns=("source", "target"), **tables):
    found = split_pairs_asked(among or shards(), {"pairs": pd.DataFrame(pairs, columns=list(columns)), **tables})
    return {client: (questions.rows.tolist(), questions.asked.pairs.T.tolist()) for client, questions in found.items()}


def test_worked_example():
    assert asked(("0", "2"), (4, 3), ("1", "0")) == {0: ([0, 2], [[0, 2], [1, 0]]), 1: ([1], [[1, 0]])}


def test_a_new_node_is_of_the_client_whose_node_it_is_paired_with():
    assert asked(("new", "4"), ("3", "new"), nodes=NEW) == {1: ([0, 1], [[3, 1], [0, 3]])}


def test_a_new_node_is_of_the_client_whose_node_it_is_joined_to():
    edges = pd.DataFrame({"source": ["new"], "target": ["1"]})
    pairs = pd.DataFrame({"source": ["new"], "target": ["2"]})
    found = split_pairs_asked(shards(), {"pairs": pairs, "nodes": NEW, "edges": edges})
    assert found[0].asked.new.pointers.tolist() == [0, 0, 1, 1, 2]
    with pytest.raises(InputError, match=r"row 1: both nodes of a pair must be of one client, .* 'new' is of 'a'"):
        asked(("4", "new"), nodes=NEW, edges=edges)


def test_two_new_nodes_say_their_client():
    both = pd.DataFrame({"node": ["x", "y"], "client": ["b", "b"], "0": [1.0, 2.0], "1": [1.0, 1.0]})
    assert asked(("x", "y"), nodes=both) == {1: ([0], [[3, 4]])}
    columns = ("source", "target", "client")
    assert asked(("x", "y", "b"), nodes=both.drop(columns="client"), columns=columns) == {1: ([0], [[3, 4]])}
    with pytest.raises(InputError, match=r"nodes, row 1: who answers for new node 'x'\?"):
        asked(("x", "y"), nodes=both.drop(columns="client"))


def test_an_id_that_several_clients_have_goes_by_its_partner():
    a, b = shards()
    among = [a, replace(b, ids=np.array(["0", "4", "1"], dtype=object))]
    assert asked(("0", "4"), among=among) == {1: ([0], [[0, 1]])}
    assert asked(("0", "1", "b"), among=among, columns=("source", "target", "client")) == {1: ([0], [[0, 2]])}
    with pytest.raises(InputError, match=r"row 1: clients 'a' and 'b' have such nodes; a column 'client' must say"):
        asked(("0", "1"), among=among)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (
            ("0", "4"),
            r"row 1: both nodes of a pair must be of one client, which scores it; '0' is of 'a'; '4' is of 'b'",
        ),
        (("0", "9"), r"row 1: 'target' must be a node of a client, or a new one of --nodes; got '9'\."),
        (("0", None), r"row 1: 'target' is empty \(1 such rows\)"),
    ],
)
def test_errors_name_the_row(pair, message):
    with pytest.raises(InputError, match=message):
        asked(pair)


def test_errors_name_what_is_missing():
    with pytest.raises(InputError, match=r"predict: a table of pairs is needed, one row each; give --pairs\."):
        split_pairs_asked(shards(), {})
    with pytest.raises(InputError, match=r"predict\.pairs: no column 'target' \(predict\.target\)\."):
        asked(("0",), columns=("source",))
    with pytest.raises(InputError, match=r"must be of client 'b', which the row names; '0' is of 'a'"):
        asked(("0", "1", "b"), columns=("source", "target", "client"))
