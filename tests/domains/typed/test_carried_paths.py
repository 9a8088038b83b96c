"""What paths carry between nodes that a metapath joins, by hand and path by path."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.typed import metapath_graphs
from fedgraft.domains.typed.metapath_graphs import carried_paths, metapath_matrix
from fedgraft.domains.typed.shards import TypedGraph, merge_graphs
from helpers.typed_graphs import typed_graph

WROTE = [(0, 0), (1, 0), (1, 1), (2, 1), (0, 1), (3, 2)]
CITES = [(0, 1), (1, 3)]


def carrying(graph: TypedGraph, width: int = 2, seed: int = 0, weighted: bool = True) -> TypedGraph:
    g, rows = np.random.default_rng(seed), {}
    for pair, ends in graph.edges.items():
        count = ends.shape[1]
        values = g.normal(size=(count, width)).astype(np.float32)
        weight = g.uniform(0.5, 2, count).astype(np.float32) if weighted else None
        rows[pair] = EdgeRows(values, np.ones(count, bool), np.arange(count), weight)
    return replace(graph, edge_rows=rows)


def paths_of(graph: TypedGraph, metapath: str, most: int = 0):
    found = carried_paths(graph, metapath, metapath_matrix(graph, metapath, most))
    entries = found.matrix.tocoo()
    keys = zip(entries.row.tolist(), entries.col.tolist(), strict=True)
    return {key: (weight, values) for key, weight, values in zip(keys, entries.data, found.values, strict=True)}


def by_hand(graph: TypedGraph, metapath: str):
    """{(i, j): (weight, values)}, each path for itself."""
    types, assembled = metapath.split("-"), {}

    def steps(kind, other, node):
        pair = graph.pair_of(kind, other)
        rows = graph.edge_rows[pair]
        ways = [0, 1] if kind == other else [0 if pair == (kind, other) else 1]
        for way in ways:
            for edge in np.flatnonzero(graph.edges[pair][way] == node):
                weight = 1.0 if rows.weight is None else float(rows.weight[edge])
                yield int(graph.edges[pair][1 - way][edge]), weight, rows.values[edge].tolist()

    def walk(first, node, place, weight, values):
        if place == len(types) - 1:
            assembled.setdefault((first, node), []).append((weight, values))
            return
        for other, of_edge, carried in steps(types[place], types[place + 1], node):
            walk(first, other, place + 1, weight * of_edge, values + carried)

    for node in range(graph.targets):
        walk(node, node, 0, 1.0, [])
    found = {}
    for key, paths in assembled.items():
        weights = np.array([weight for weight, _ in paths])
        found[key] = weights.mean(), weights @ np.array([values for _, values in paths]) / weights.sum()
    return found


def test_one_author_by_hand() -> None:
    graph = typed_graph({("paper", "author"): [(0, 0), (1, 0)]})
    told = EdgeRows(np.array([[1], [5]], np.float32), np.ones(2, bool), np.arange(2), np.array([1, 3], np.float32))
    found = paths_of(replace(graph, edge_rows={("paper", "author"): told}), "paper-author-paper")
    assert {key: (weight, values.tolist()) for key, (weight, values) in found.items()} == {
        (0, 0): (1, [1, 1]),
        (0, 1): (3, [1, 5]),
        (1, 0): (3, [5, 1]),
        (1, 1): (9, [5, 5]),
    }


@pytest.mark.parametrize("metapath", ["paper-author-paper", "paper-paper", "paper-paper-author-paper"])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_path_counts(metapath: str, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = carrying(typed_graph({("paper", "author"): WROTE, ("paper", "paper"): CITES}), weighted=weighted)
    monkeypatch.setattr(metapath_graphs, "ROWS", 3)
    found, wanted = paths_of(graph, metapath), by_hand(graph, metapath)
    assert {*found} == {*wanted}
    for key, (weight, values) in wanted.items():
        assert found[key][0] == pytest.approx(weight)
        np.testing.assert_allclose(found[key][1], values, rtol=1e-5, atol=1e-6)


def test_only_neighbours_that_are_kept_are_there_and_who_no_path_leads_back_to_is_not() -> None:
    graph = carrying(typed_graph({("paper", "author"): WROTE, ("paper", "paper"): CITES}))
    assert {(2, 0), (2, 1)} <= {*paths_of(graph, "paper-author-paper")}
    few = paths_of(graph, "paper-author-paper", most=1)
    assert sum(one == 2 != other for one, other in few) == 1
    assert few[3, 3][0] > 0, "its author leads back"
    assert (2, 2) not in paths_of(graph, "paper-paper")


def test_edges_that_no_metapath_passes_are_told(caplog: pytest.LogCaptureFixture) -> None:
    def notes(graph: TypedGraph, *metapaths: str, alike: tuple[str, ...] = ()) -> list[str]:
        caplog.clear()
        metapath_graphs.note_unpassed(graph, metapaths, alike)
        return caplog.messages

    graph = carrying(typed_graph({("paper", "author"): WROTE, ("paper", "paper"): CITES}))
    unpassed = "task: no metapath passes edges paper-paper; what they carry is not read."
    assert notes(graph, "paper-author-paper") == [unpassed]
    assert notes(graph, "paper-author-paper", "paper-paper") == []
    counted = "inputs.propagate: each node that a metapath joins counts alike, whatever edges weigh."
    assert notes(graph, "paper-author-paper", alike=("inputs.propagate",)) == [counted, unpassed]
    same = {pair: replace(rows, values=rows.values * 0, weight=None) for pair, rows in graph.edge_rows.items()}
    assert notes(replace(graph, edge_rows=same), "paper") == []
    assert notes(replace(graph, edge_rows=None), "paper") == []


def test_edges_keep_what_they_carry_in_parts_and_in_the_whole() -> None:
    graph = carrying(typed_graph({("paper", "author"): WROTE, ("paper", "paper"): CITES}))
    authors = np.arange(3)
    parts = [
        graph.induced("one", {"paper": np.array([0, 1]), "author": authors}),
        graph.induced("two", {"paper": np.array([2, 3]), "author": authors}),
    ]
    assert [part.edge_rows["paper", "author"].number.tolist() for part in parts] == [[0, 1, 2, 4], [3, 5]]
    whole = merge_graphs([parts[1], parts[0]])
    back = whole.induced("back", {"paper": np.array([2, 3, 0, 1]), "author": authors}).tidy()
    wanted = graph.induced("wanted", {"paper": np.arange(4), "author": authors}).tidy()
    np.testing.assert_array_equal(back.edges["paper", "author"], wanted.edges["paper", "author"])
    for pair in (("paper", "author"),):
        np.testing.assert_array_equal(back.edge_rows[pair].values, wanted.edge_rows[pair].values)
        np.testing.assert_array_equal(back.edge_rows[pair].weight, wanted.edge_rows[pair].weight)
