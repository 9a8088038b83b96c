"""Questions about papers: known ones by id, new ones by what they bring; checked by hand on six papers."""

import logging

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.contracts.values import Questions
from fedgraft.domains.labels.classes import likeliest
from fedgraft.domains.typed.partitions import parts_of, structural_features
from fedgraft.domains.typed.queries import split_typed_nodes_asked, with_new_nodes
from fedgraft.domains.typed.shards import TypedGraph
from fedgraft.errors import InputError
from helpers.toy_typed import APPEARS, WRITES, named, papers, same

NONE = pd.DataFrame({"name": []}, dtype=object)


def shards(**options) -> list[TypedGraph]:
    """Client "a" has p0, p1 and p2, client "b" the others; both have a0, a2, v0 and v1."""
    return parts_of(papers(**options), np.array([0, 0, 0, 1, 1, 1]), ("a", "b"), "shared", 1)


def table(*rows: tuple, columns: str = "node 0 1") -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split())


def joined(*rows: tuple[str, str]) -> pd.DataFrame:
    """Edges between "paper x" and "author y"."""
    ends = [(*one.split(), *other.split()) for one, other in rows]
    return pd.DataFrame(ends, columns=["source_type", "source", "target_type", "target"])


def asked(nodes: pd.DataFrame, edges: pd.DataFrame | None = None, among=None, **more) -> dict[int, Questions]:
    tables = {"nodes": nodes, **({} if edges is None else {"edges": edges}), **more}
    return split_typed_nodes_asked(among or shards(), tables)


# --- known nodes ------------------------------------------------------------------------------------------------------


def test_known_nodes_are_answered_by_who_has_them() -> None:
    found = asked(pd.DataFrame({"node": ["p4", "p0", "p3", "p4"]}))
    assert {client: questions.rows.tolist() for client, questions in found.items()} == {0: [1], 1: [0, 2, 3]}
    assert found[1].asked.ids.tolist() == ["p4", "p3", "p4"]
    graph, places = with_new_nodes(shards()[1], found[1].asked)
    assert places.tolist() == [1, 0, 1]
    same([graph], [shards()[1]])


def test_ids_are_compared_as_text() -> None:
    graphs = [
        TypedGraph(**{**vars(part), "ids": {**part.ids, "paper": np.array(ids, dtype=object)}})
        for part, ids in zip(shards(), ([0, 1, 2], [3, 4, 5]), strict=True)
    ]
    for ids in (["4", "0"], [4, 0], [4.0, 0.0]):
        found = asked(pd.DataFrame({"node": ids}), among=graphs)
        assert {client: questions.asked.nodes.tolist() for client, questions in found.items()} == {0: [0], 1: [1]}


def test_an_id_that_several_clients_have_needs_the_client() -> None:
    a, b = shards()
    both = [a, TypedGraph(**{**vars(b), "ids": {**b.ids, "paper": np.array(["p0", "p4", "p5"], dtype=object)}})]
    found = asked(table(("p0", "b"), ("p0", "a"), columns="node client"), among=both)
    assert {client: questions.rows.tolist() for client, questions in found.items()} == {0: [1], 1: [0]}
    with pytest.raises(InputError, match=r"row 1: node 'p0' is of clients 'a' and 'b'; a column 'client' must say"):
        asked(table(("p0",), columns="node"), among=both)


# --- new nodes --------------------------------------------------------------------------------------------------------


def test_new_nodes_join_the_client_of_what_they_are_joined_to(caplog: pytest.LogCaptureFixture) -> None:
    # y has an author that only b has; x one that nobody has, who wrote p1 too; z says itself whose it is.
    nodes = table(
        ("y", 8, 1, None), ("p4", None, None, None), ("x", 7, 1, None), ("z", 9, 1, "a"), columns="node 0 1 client"
    )
    edges = joined(
        ("paper y", "author a3"),
        ("venue v0", "paper y"),
        ("paper x", "author new"),
        ("author new", "paper p1"),
        ("paper x", "author new"),
    )
    with caplog.at_level(logging.WARNING):
        found = asked(nodes, edges)
    assert {client: questions.rows.tolist() for client, questions in found.items()} == {0: [2, 3], 1: [0, 1]}
    assert "predict.edges: 1 new nodes of type 'author', such as 'new'." in caplog.text

    a, places = with_new_nodes(shards()[0], found[0].asked)
    assert a.ids["paper"].tolist() == ["p0", "p1", "p2", "x", "z"]
    assert a.ids["author"].tolist() == ["a0", "a1", "a2", "new"]
    assert (places.tolist(), a.features[3:].tolist()) == ([3, 4], [[7, 1], [9, 1]])
    assert a.label.tolist() == [0, 1, 0, -1, -1]
    assert a.split.tolist() == [-1] * 5
    known = named(shards()[0])
    assert named(a)["paper-author"] == sorted([*known["paper-author"], ("x", "new"), ("p1", "new")])
    assert named(a)["paper-venue"] == known["paper-venue"]

    b, places = with_new_nodes(shards()[1], found[1].asked)
    assert places.tolist() == [3, 1]
    assert ("y", "v0") in named(b)["paper-venue"]


def test_a_node_that_the_client_lacks_is_new_to_it() -> None:
    found = asked(table(("x", 1, 1, "b"), columns="node 0 1 client"), joined(("paper x", "author a1")))
    b, _ = with_new_nodes(shards()[1], found[1].asked)
    assert b.ids["author"].tolist() == ["a0", "a2", "a3", "a1"]


def test_one_client_answers_for_all() -> None:
    alone = parts_of(papers(), np.zeros(6, np.int64), ("all",), "shared", 1)
    assert asked(table(("x", 1, 2)), among=alone)[0].asked.nodes.tolist() == [6]


def test_edges_within_a_type_may_be_listed_either_way() -> None:
    cites = [(0, 1), (3, 4)]
    nodes = table(("x", 1, 1), ("y", 1, 1))
    edges = joined(("paper x", "paper p1"), ("paper y", "paper x"), ("paper p1", "paper x"), ("paper x", "paper x"))
    found = asked(nodes, edges, shards(cites=cites))
    a, _ = with_new_nodes(shards(cites=cites)[0], found[0].asked)
    assert named(a)["paper-paper"] == [("p0", "p1"), ("p1", "x"), ("x", "y")]


@given(
    count=st.integers(3, 7),
    writes=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5)), max_size=14),
    new=st.integers(1, 3),
    is_sparse=st.booleans(),
)
def test_a_graph_without_some_nodes_and_these_asked_as_new_is_the_graph(count, writes, new, is_sparse) -> None:
    """Whatever the graph: nodes that are added are as nodes that were always there."""
    new = min(new, count - 1)
    writes = sorted({(paper % count, author) for paper, author in writes})
    left = count - new
    label = [0] * count
    appears = [(paper, 0) for paper in range(count)]
    whole = papers(label, writes, appears, is_sparse=is_sparse)
    part = papers(label[:left], [w for w in writes if w[0] < left], appears[:left], is_sparse=is_sparse)
    # Authors as the whole has them, so that their places are the same.
    part = TypedGraph(**{**vars(part), "ids": {**part.ids, "author": whole.ids["author"]}})
    pairs = [(f"paper p{paper}", f"author a{author}") for paper, author in writes if paper >= left]
    pairs += [(f"venue v{venue}", f"paper p{paper}") for paper, venue in appears if paper >= left]
    nodes = table(*((f"p{paper}", paper, 1) for paper in range(left, count)))
    found, places = with_new_nodes(part, asked(nodes, joined(*pairs), [part])[0].asked)
    assert places.tolist() == list(range(left, count))
    assert named(found) == named(whole)
    mine, its = (x.toarray() if is_sparse else x for x in (found.features, whole.features))
    np.testing.assert_array_equal(mine, its)


# --- features ---------------------------------------------------------------------------------------------------------


def test_features_are_found_by_their_names() -> None:
    names = pd.DataFrame({"name": ["pages", "year"]})
    nodes = table(("x", 3, "b", 70), columns="node year client pages")
    assert asked(nodes, features=names)[1].asked.features.tolist() == [[70, 3]]


def test_features_that_are_made_of_what_a_client_holds_are_made_anew() -> None:
    made = [TypedGraph(**{**vars(part), "features": structural_features(part)}) for part in shards()]
    found = asked(pd.DataFrame({"node": ["x", "p1"]}), joined(("paper x", "author a1")), made, features=NONE)
    graph, places = with_new_nodes(made[0], found[0].asked)
    assert places.tolist() == [3, 1]
    expected = papers([0, 1, 0, -1], [*(w for w in WRITES if w[0] < 3), (3, 1)], APPEARS[:3])
    ids = {**expected.ids, "paper": np.array(["p0", "p1", "p2", "x"], dtype=object)}
    np.testing.assert_allclose(graph.features, structural_features(TypedGraph(**{**vars(expected), "ids": ids})))
    known = asked(pd.DataFrame({"node": ["p1"]}), None, made, features=NONE)
    np.testing.assert_array_equal(with_new_nodes(made[0], known[0].asked)[0].features, made[0].features)
    with pytest.raises(InputError, match=r"row 2: no client has a paper 'p9' \(1 such rows\)\. Did you mean 'p\d'\? A"):
        asked(pd.DataFrame({"node": ["p1", "p9"]}), None, made, features=NONE)


# --- answers ----------------------------------------------------------------------------------------------------------


def test_answers() -> None:
    questions = asked(pd.DataFrame({"node": ["p4", "p3"]}))[1]
    shares = np.array([[0.25, 0.75], [0.5, 0.5]], np.float32)
    found = {"node": questions.asked.ids, **likeliest(("class 0", "class 1"), shares)}
    told = [["p4", "p3"], ["class 1", "class 0"], [0.75, 0.5], [0.25, 0.5], [0.75, 0.5]]
    assert [list(column) for column in found.values()] == told
    assert [*found] == ["node", "class", "probability", "probability_class 0", "probability_class 1"]


# --- errors -----------------------------------------------------------------------------------------------------------

X = table(("x", 1, 1))


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (
            table(("p44",), columns="node"),
            None,
            r"no client has a node 'p44' \(1 such rows\)\. Did you mean 'p4'\?",
        ),
        (table(("p4", "c"), columns="node client"), None, r"nodes, row 1: No client named 'c'\. Known: a, b"),
        (table(("p4", "a"), columns="node client"), None, "nodes, row 1: node 'p4' is of client 'b', not of 'a'"),
        (table(("x", 1, 1), ("x", 1, 1)), None, "nodes, row 1: new node 'x' is listed twice"),
        (X, None, r"nodes, row 1: who answers for new paper 'x'\? No edge joins it to a node that one client has; a c"),
        (X, joined(("paper x", "author a0")), r"row 1: who answers for new paper 'x'\? No edge joins it"),
        (X, joined(("paper x", "author a9")), r"row 1: who answers for new paper 'x'\? No edge joins it"),
        (
            X,
            joined(("paper x", "autor a0")),
            r"edges, row 1: 'target_type': No node type named 'autor'\. Did you mean",
        ),
        (
            X,
            joined(("author a0", "venue v0")),
            "row 1: there are no edges author-venue; there are paper-author, pa",
        ),
        (
            X,
            joined(("paper xx", "author a0")),
            r"row 1: 'source' must be a node of type 'paper' of a client, or",
        ),
        (
            X,
            joined(("paper p0", "author a0")),
            "row 1: one end must be new; got paper 'p0' and author 'a0', whose",
        ),
        (
            X,
            joined(("author n", "paper p0"), ("author n", "paper x"), ("paper p4", "author n")),
            r"row 3: new paper 'x' would be of client 'b', and of 'a' by predict.edges, row 1; a new node has edges",
        ),
        (
            table(("x", 1, 1, "b"), columns="node 0 1 client"),
            joined(("author n", "paper p0"), ("author n", "paper x")),
            r"edges, row 1: new paper 'x' would be of client 'a', and of 'b' by predict.nodes, row 1; a new",
        ),
        (
            table(("x", 1, 1, "b"), columns="node 0 1 client"),
            joined(("author n", "venue v0")),
            "there are no edges author-venue",
        ),
        (X, X, "predict.edges: no column 'source_type'"),
        (table(("x", 1), columns="node 1"), None, "nodes: no column '0', a feature of new node 'x'"),
    ],
)
def test_errors(nodes: pd.DataFrame, edges: pd.DataFrame | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        asked(nodes, edges)


def test_a_table_of_nodes_is_needed() -> None:
    with pytest.raises(InputError, match=r"predict: a table of nodes is needed, one row each; give --nodes\."):
        split_typed_nodes_asked(shards(), {"edges": joined(("paper x", "author a0"))})
    with pytest.raises(InputError, match=r"no column 'node' \(predict.node\)"):
        asked(pd.DataFrame({"nod": ["p0"]}))
