"""Questions about nodes: known ones by id, new ones by what they bring; checked by hand on a ring of five nodes."""

import logging
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fedgraft.contracts.values import HaloRows
from fedgraft.domains.edge_data.graph_form import GraphForm
from fedgraft.domains.nodes.base.historical_embeddings import States
from fedgraft.domains.nodes.base.shards import NodeShard, cut
from fedgraft.domains.nodes.reading.client_tables import own_part, own_rows
from fedgraft.domains.nodes.reading.queries import NodeQuery, remembered_halo, split_nodes_asked, with_new_nodes
from fedgraft.domains.nodes.reading.tables import usual_names
from fedgraft.domains.tables.columns import own_features
from fedgraft.errors import InputError
from helpers.toy_nodes import directed, whole

CLASSES = ("class 0", "class 1")
X = ("x", 7, 1)


def shards(is_sparse: bool = False) -> list[NodeShard]:
    """The ring 0 1 2 3 4 and the lonely node 5; client "a" has 0, 1, 2, client "b" the others."""
    return cut(whole(is_sparse=is_sparse), np.array([0, 0, 0, 1, 1, 1]), ("a", "b"))


def table(*rows: tuple, columns: str = "node 0 1") -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split())


def joined(*pairs: tuple) -> pd.DataFrame:
    return pd.DataFrame(pairs, columns=["source", "target"])


def asked(nodes: pd.DataFrame, edges: pd.DataFrame | None = None, among: list[NodeShard] | None = None, **more):
    tables = {"nodes": nodes, **({} if edges is None else {"edges": edges}), **more}
    return split_nodes_asked(among or shards(), tables)


# --- known nodes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [["4", "0", "3"], [4, 0, 3], [4.0, 0.0, 3.0]])
def test_known_nodes_are_answered_by_who_has_them(ids: list) -> None:
    found = asked(pd.DataFrame({"node": ids}))
    assert {client: questions.rows.tolist() for client, questions in found.items()} == {0: [1], 1: [0, 2]}
    assert found[1].asked.ids.tolist() == ["4", "3"]
    assert found[1].asked.nodes.tolist() == [1, 0]
    assert with_new_nodes(shards()[1], found[1].asked).own == 3


def test_an_id_that_several_clients_have_needs_the_client() -> None:
    a, b = shards()
    both = [a, replace(b, ids=np.array(["0", "4", "5"], dtype=object))]
    found = asked(table(("0", "b"), ("0", "a"), ("4", None), columns="node client"), among=both)
    assert {client: questions.rows.tolist() for client, questions in found.items()} == {0: [1], 1: [0, 2]}
    with pytest.raises(InputError, match=r"nodes, row 2: node '0' is of clients 'a' and 'b'; a column 'client' must"):
        asked(table(("4",), ("0",), columns="node"), among=both)


# --- new nodes --------------------------------------------------------------------------------------------------------


def test_new_nodes_join_the_client_of_their_neighbours(caplog) -> None:
    # y is joined to a only by way of x; z says itself whose it is, and has no edge.
    nodes = table(
        ("y", 8, 1, None), ("4", None, None, None), ("x", 7, 1, None), ("z", 9, 1, "b"), columns="node 0 1 client"
    )
    with caplog.at_level(logging.WARNING):
        found = asked(nodes, joined(("x", "y"), ("2", "x"), ("x", "x"), ("x", "2"), ("x", "y")))
    assert {client: questions.rows.tolist() for client, questions in found.items()} == {0: [0, 2], 1: [1, 3]}
    assert "client 'a': 1 edges from a node to itself left out" in caplog.text
    assert "client 'a': 1 repeated edges left out" in caplog.text

    a = with_new_nodes(shards()[0], found[0].asked)
    assert a.ids.tolist() == ["0", "1", "2", "y", "x"]
    assert a.features[3:].tolist() == [[8, 1], [7, 1]]
    assert a.label.tolist() == [0, 1, 0, -1, -1]
    known = directed([shards()[0], shards()[1]])
    added = [("2", "x"), ("x", "2"), ("x", "y"), ("y", "x")]
    assert directed([a, shards()[1]]) == sorted([*known, *added])

    b = with_new_nodes(shards()[1], found[1].asked)
    assert found[1].asked.nodes.tolist() == [1, 3]
    assert b.degree.tolist() == [*shards()[1].degree, 0]


def test_one_client_answers_for_all() -> None:
    alone = cut(whole(), np.zeros(6, np.int64), ("all",))
    assert asked(table(("x", 1, 2)), among=alone)[0].asked.nodes.tolist() == [6]


@given(
    nodes=st.integers(2, 7),
    edges=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12),
    new=st.integers(1, 3),
    is_sparse=st.booleans(),
    data=st.data(),
)
def test_a_graph_without_some_nodes_and_these_asked_as_new_is_the_graph(nodes, edges, new, is_sparse, data) -> None:
    """Whatever the graph: nodes that are added are as nodes that were always there."""
    new = min(new, nodes - 1)
    edges = [(u % nodes, v % nodes) for u, v in edges]
    everything = [0] * nodes
    # A second client makes a halo.
    owner = np.array([*([0] * nodes), 1])
    halo = [(nodes, v) for v in data.draw(st.sets(st.integers(0, nodes - 1)))]
    full = cut(whole([*edges, *halo], [*everything, 1], is_sparse=is_sparse), owner, ("a", "b"))
    left = nodes - new
    rest = whole([(u, v) for u, v in edges if max(u, v) < left], everything[:left], is_sparse=is_sparse)
    kept = [(u, v) for u, v in edges if max(u, v) < left] + [(left, v) for _, v in halo if v < left]
    rest = cut(whole(kept, [*everything[:left], 1], is_sparse=is_sparse), np.array([0] * left + [1]), ("a", "b"))
    added = [(str(u), str(v)) for u, v in edges if max(u, v) >= left]
    added += [(str(u), str(v)) for u, v in halo if v >= left]
    rest[1] = replace(rest[1], ids=np.array([str(nodes)], dtype=object))
    rows = [(str(v), v, 1, "a") for v in range(left, nodes)]
    found = asked(table(*rows, columns="node 0 1 client"), joined(*added), rest)
    again = with_new_nodes(rest[0], found[0].asked)
    for name in ("ids", "pointers", "senders", "halo_owner", "halo_place"):
        np.testing.assert_array_equal(getattr(again, name), getattr(full[0], name), name)
    mine, its = (x.toarray() if is_sparse else x for x in (again.features, full[0].features))
    np.testing.assert_array_equal(mine, its)


def test_columns_of_edges_say_whose_the_ends_are() -> None:
    a, b = shards()
    both = [a, replace(b, ids=np.array(["0", "4", "5"], dtype=object))]
    edges = joined(("x", "0"), ("x", "1")).assign(source_client="a", target_client=["b", None])
    found = asked(table(X), edges, both)
    assert found[0].asked.others.tolist() == [1 << 32]
    joined_a = with_new_nodes(a, found[0].asked)
    at = joined_a.own + joined_a.halo_place.tolist().index(0)
    assert joined_a.senders[joined_a.pointers[3] :].tolist() == [1, at], "the other's node of the same id"
    assert joined_a.degree.tolist() == [2, 3, 2, 2]
    for wrong, message in (
        (edges.assign(target_client="c"), r"edges, row 1: No client named 'c'.*Known: a, b"),
        (edges.assign(target="9"), r"row 1: client 'b', which 'target_client' names, has no node '9'"),
        (edges.assign(source_client=["a", "b"]), r"row 2: 'source_client' names 'b' for new node 'x', which is of 'a'"),
    ):
        with pytest.raises(InputError, match=message):
            asked(table(X), wrong, both)
    three = [a, both[1], replace(both[1], name="c")]
    with pytest.raises(InputError, match=r"row 2: node '4' is of clients 'b' and 'c'; a column 'target_client' must"):
        asked(table(X), joined(("x", "0"), ("x", "4")).assign(source_client="a"), three)


def test_a_site_leaves_out_what_it_was_never_joined_to(caplog) -> None:
    known = {
        "clients": pd.DataFrame({"name": ["z", "a", "b"]}),
        "elsewhere": pd.DataFrame({"owner": [2, 0], "place": [0, 5], "node": ["4", "4"]}),
    }
    edges = joined(("x", "0"), ("x", "4"), ("7", "x"), ("x", "8")).assign(target_client=[None, "b", None, "z"])
    found = asked(table(X), edges, shards()[:1], **known)[0].asked
    assert found.others.tolist() == [2 << 32]
    assert "predict.edges: 2 edges lead to 2 nodes of other clients that this site was never joined to ('7', '8')" in (
        caplog.text
    )
    with pytest.raises(InputError, match=r"row 2: node '4' is of clients 'z' and 'b'; a column 'target_client' must"):
        asked(table(X), edges.assign(target_client=None), shards()[:1], **known)
    with pytest.raises(InputError, match=r"row 1: 'source_client' must name who answers for new node 'x'; got 'b'"):
        asked(table(X), edges.assign(source_client="b"), shards()[:1], **known)


def test_features_are_found_by_their_names() -> None:
    names = pd.DataFrame({"name": ["pages", "year"]})
    found = asked(table(("x", 3, "b", 70), columns="node year client pages"), features=names)
    assert found[1].asked.features.tolist() == [[70, 3]]
    assert asked(pd.DataFrame({"node": ["x"], "client": "b", 0: 5, 1: 6}))[1].asked.features.tolist() == [[5, 6]]


def test_missing_features_are_zero_only_where_features_are_sparse(caplog) -> None:
    nodes = table(("x", 3, "b", "hm"), ("0", None, None, None), ("y", None, "b", 4), columns="node 1 client note")
    with pytest.raises(InputError, match=r"predict.nodes: no column '0', a feature of new node 'x' \(1 such columns\)"):
        asked(nodes.iloc[:2])
    with pytest.raises(InputError, match=r"nodes, row 3: no client has a node 'y'"):
        asked(nodes, among=shards(is_sparse=True))
    with caplog.at_level(logging.WARNING):
        features = asked(nodes.iloc[:2], among=shards(is_sparse=True))[1].asked.features
    assert isinstance(features, sparse.csr_matrix)
    assert features.toarray().tolist() == [[0, 3]]
    assert "predict.nodes: column 'note' is no feature (1 such columns)" in caplog.text
    partly = table(("x", 3, None, "b"), ("y", None, 4, "b"), columns="node 0 1 client")
    assert asked(partly, among=shards(is_sparse=True))[1].asked.features.toarray().tolist() == [[3, 0], [0, 4]]


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (None, joined(("x", "0")), "a table of nodes is needed, one row each; give --nodes"),
        (table(("a",), columns="nodes"), None, "predict.nodes: no column 'node' .*Did you mean 'nodes'"),
        (table(("0",), (None,), columns="node"), None, "predict.nodes, row 2: 'node' is empty"),
        (table(("0", "0"), columns="node node"), None, "predict.nodes: two columns are named 'node'"),
        (table(("0", "c"), columns="node client"), None, "predict.nodes, row 1: No client named 'c'.*Known: a, b"),
        (table(("0", "a"), ("4", "a"), columns="node client"), None, "row 2: node '4' is of client 'b', not of 'a'"),
        (
            table(("0",), ("44",), columns="node"),
            None,
            r"nodes, row 2: no client has a node '44' \(1 such rows\). Did you mean '4'. A new node "
            "needs its features, in columns '0', '1'",
        ),
        (table(("44", "a"), columns="node client"), None, r"no client has a node '44' \(1 such rows\). A new"),
        (table(("0", None, None), ("44", None, None)), None, "nodes, row 2: no client has a node '44'"),
        (table(("x", 1, None)), joined(("x", "0")), "row 1: '1' must be a finite number, as a feature; got nothing"),
        (table(("x", 1, "many")), joined(("x", "0")), "nodes, row 1: '1' must be a finite .*; got 'many'"),
        (table(("x", 1, 1e39)), joined(("x", "0")), "'1' must be a finite number"),
        (table(("x", 1, True)), joined(("x", "0")), "'1' must be a finite number"),
        (table(("x", 1, pd.Timestamp(9))), joined(("x", "0")), "'1' must be a finite number, as a feature; got '1970-"),
        (table(X, ("0", 1, 1), X), joined(("x", "0")), "nodes, row 3: new node 'x' is listed twice"),
        (table(X), None, "nodes, row 1: who answers for new node 'x'. No edge joins it to a node that one client has"),
        (table(X, ("y", 1, 1)), joined(("x", "0"), ("y", "y")), "nodes, row 2: who answers for new node 'y'"),
        (
            table(X),
            joined(("x", "00")),
            "edges, row 1: 'target' must be a node of a client, or a new one of --nodes; got '00'. Did you mean '0'",
        ),
        (table(X), joined(("x", "0"), (None, "0")), "edges, row 2: 'source' is empty"),
        (table(X), joined(("x", "0")).rename(columns={"target": "to"}), r"predict.edges: no column 'target'"),
        (table(X), joined(("x", "0"), ("1", "0")), "edges, row 2: one end must be a new node .* got '1' and '0'"),
        (table(("0",), columns="node"), joined(("1", "2")), "edges, row 1: one end must be a new node"),
        (
            table(X),
            joined(("x", "0"), ("4", "x")),
            "nodes, row 1: who answers for new node 'x'. Edges join it to nodes of 'a' and 'b'; a column 'client'",
        ),
        (
            table((*X, "a"), ("y", 1, 1, "b"), columns="node 0 1 client"),
            joined(("y", "x")),
            "edges, row 1: new node 'x' is of client 'a', the other end of 'b'; new nodes have edges to each ",
        ),
    ],
)
def test_questions_that_cannot_be_answered(nodes, edges, message: str) -> None:
    tables = {name: each for name, each in (("nodes", nodes), ("edges", edges)) if each is not None}
    with pytest.raises(InputError, match=message):
        split_nodes_asked(shards(), tables)


# --- what a client remembers, and a client's own part -----------------------------------------------------------------


def test_remembered_states_of_the_halo_are_received_again() -> None:
    states = States(own=3, halo=2, widths=(2,))
    states.write(0, np.arange(3), np.ones((3, 2), np.float32))
    states.receive([HaloRows(np.array([1]), np.array([[5, 6]], np.float32))])
    (found,) = remembered_halo(states.to_tree(), own=3, halo=2, widths=(2,))
    assert found.slot.tolist() == [1]
    assert found.rows.tolist() == [[5, 6]]
    more = States(own=9, halo=2, widths=(2,))
    more.receive([found])
    assert more.known[0].nonzero()[0].tolist() == [10]
    assert not len(remembered_halo(None, own=3, halo=2, widths=(2,))[0].slot)


OWN = table(("p", 1, 2), ("q", 3, 4), ("r", 5, 6))
NAMES = usual_names(features=("0", "1"))
FORM = GraphForm("data", NAMES)
DENSE, SPARSE = (partial(own_features, names=("0", "1"), is_sparse=is_sparse) for is_sparse in (False, True))


def test_a_clients_own_part_is_what_is_between_its_nodes(caplog) -> None:
    with caplog.at_level(logging.WARNING):
        rows = own_rows(OWN, NAMES, "own.csv")
        part = own_part(rows, joined(("q", "p"), ("r", "elsewhere"), ("r", "r")), FORM, CLASSES, DENSE).whole
    assert part.name == "own"
    assert directed([part]) == [("p", "q"), ("q", "p")]
    assert part.features.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert "1 edges to nodes that are not in own.csv left out" in caplog.text
    assert "1 edges from a node to itself left out" in caplog.text
    assert own_part(rows, joined(), FORM, CLASSES, SPARSE).whole.degree.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (OWN.rename(columns={"node": "id"}), joined(), r"own.csv: no column 'node' \(data.node\)"),
        (OWN.drop(columns="1"), joined(), r"own.csv: no column '1', a feature of the run's data \(1 such columns\)"),
        (table(("p", 1, 2), ("q", 1, 2), ("p", 1, 2)), joined(), "own.csv, row 3: node 'p' is listed twice"),
        (table(("p", 1, "x")), joined(), "own.csv, row 1: '1' must be a finite number"),
        (OWN.iloc[:0], joined(), "own.csv: no rows"),
        (OWN, pd.DataFrame({"source": ["p"]}), "--data-edges: no column 'target'"),
    ],
)
def test_a_part_that_cannot_be_used(nodes: pd.DataFrame, edges: pd.DataFrame, message: str) -> None:
    with pytest.raises(InputError, match=message):
        own_part(own_rows(nodes, NAMES, "own.csv"), edges, FORM, CLASSES, DENSE)


def test_nothing_new_leaves_the_part_as_it_is() -> None:
    part = shards()[0]
    nothing = NodeQuery(part.ids, np.arange(3), part.features[:0], np.zeros(4, np.int64), np.zeros(0, np.int32))
    assert with_new_nodes(part, nothing) is part
