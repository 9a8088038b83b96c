import logging
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.domains import dealing
from fedgraft.domains.typed.partitions import TypedDealing, parts_of, reached
from fedgraft.domains.typed.shards import TypedGraph, adjacencies, merge_graphs
from fedgraft.errors import InputError
from helpers.toy_typed import named, papers, same

DIRICHLET = {"partition": "dirichlet", "alpha": 0.3}


def many(count: int = 200, unknown: int = 40) -> TypedGraph:
    """Papers of two classes, the last without a label, with authors in common; and venues."""
    row = np.arange(count)
    label = np.where(row < count - unknown, row % 2, -1)
    return papers(label, [(v, v % 30) for v in row] + [(v, v // 5) for v in row], [(v, v % 3) for v in row])


def owners(parts: list[TypedGraph]) -> dict[str, str]:
    return {name: part.name for part in parts for name in part.ids["paper"]}


# --- who holds what ---------------------------------------------------------------------------------------------------


def test_a_client_holds_what_it_reaches_without_passing_another_clients_papers() -> None:
    a, b = parts_of(papers(), np.array([0, 0, 0, 1, 1, 1]), ("a", "b"), "shared", 1)
    assert (a.name, a.ids["paper"].tolist()) == ("a", ["p0", "p1", "p2"])
    assert (a.ids["author"].tolist(), a.ids["venue"].tolist()) == (["a0", "a1", "a2"], ["v0", "v1"])
    assert named(a)["paper-author"] == [("p0", "a0"), ("p0", "a1"), ("p1", "a1"), ("p2", "a2")]
    assert b.ids["author"].tolist() == ["a0", "a2", "a3"], "a2 is at both, for both have a paper of it"
    assert named(b)["paper-venue"] == [("p3", "v1"), ("p4", "v1"), ("p5", "v0")]
    assert a.features.tolist() == [[0, 1], [1, 1], [2, 1]]


def test_as_many_steps_as_half_of_the_longest_metapath() -> None:
    # The target is the author; papers cite one another in a row.
    row = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    graph = papers(cites=row, metapaths=())
    graph = TypedGraph(
        name="toy",
        target="author",
        ids=graph.ids,
        features=np.ones((4, 1), np.float32),
        label=np.zeros(4, np.int64),
        classes=("one",),
        split=np.full(4, -1, np.int8),
        edges=graph.edges,
        metapaths=(),
    )
    around = adjacencies(graph)
    found = reached(graph, around, np.array([1]))
    assert [f"p{k}" for k in found["paper"]] == ["p0", "p1", "p2"], "its own p0 and p1, and what they cite"
    assert found["venue"].tolist() == [0]
    longer = TypedGraph(**{**vars(graph), "metapaths": ("author-paper-paper-paper-paper-paper-author",)})
    found = reached(longer, around, np.array([1]))
    assert [f"p{k}" for k in found["paper"]] == ["p0", "p1", "p2", "p3", "p5"], "a third step, to p5 by way of v0"


def test_other_nodes_are_divided_where_that_is_asked_for() -> None:
    graph = many()
    parts = TypedDealing("Toy", 4, others="divided").deal(graph, 1)
    for kind in ("author", "venue"):
        held = [name for part in parts for name in part.ids[kind]]
        assert sorted(held) == sorted(graph.ids[kind]), "each at one client"
    shared = TypedDealing("Toy", 4).deal(graph, 1)
    assert owners(parts) == owners(shared), "who holds a paper does not depend on it"
    assert (
        sum(ends.shape[1] for part in parts for ends in part.edges.values()) < graph.edges["paper", "author"].shape[1]
    )


def test_no_metapath_between_own_papers_is_broken() -> None:
    graph = many()
    whole = {kind: graph.adjacency("paper", kind) for kind in ("author", "venue")}
    for part in TypedDealing("Toy", 5, **DIRICHLET).deal(graph, 3):
        rows = np.flatnonzero(np.isin(graph.ids["paper"], part.ids["paper"]))
        for kind, matrix in whole.items():
            there = part.adjacency("paper", kind)
            assert ((there @ there.T) != (matrix @ matrix.T)[rows][:, rows]).nnz == 0


def test_all_parts_together_are_the_whole_graph() -> None:
    graph = many()
    merged = merge_graphs(TypedDealing("Toy", 5).deal(graph, 3, split=False))
    assert named(merged) == named(graph)
    assert sorted(merged.ids["author"]) == sorted(set(graph.ids["author"]))


def test_a_type_without_nodes_stays_with_none() -> None:
    a, b = parts_of(papers(appears=[(0, 0), (1, 1)]), np.array([0, 0, 0, 1, 1, 1]), ("a", "b"), "shared", 1)
    assert (len(a.ids["venue"]), len(b.ids["venue"])) == (2, 0)
    assert b.edges["paper", "venue"].shape == (2, 0)
    assert [*a.edges] == [*b.edges]


# --- partitions and splits --------------------------------------------------------------------------------------------


def test_uniform_is_equal_in_numbers_and_by_the_seed() -> None:
    graph = many()
    parts = TypedDealing("Toy", 7).deal(graph, 1)
    assert sorted(part.targets for part in parts) == [28, 28, 28, 29, 29, 29, 29]
    assert [part.name for part in parts] == [f"toy-{k}" for k in range(7)]
    same(TypedDealing("Toy", 7).deal(graph, 1), parts)
    assert owners(TypedDealing("Toy", 7).deal(graph, 2)) != owners(parts)


def test_dirichlet_is_of_classes_and_leaves_nodes_without_one_at_random() -> None:
    graph = many(600, unknown=100)
    parts = TypedDealing("Toy", 5, "dirichlet", 0.1).deal(graph, 1)
    unknown = [int((part.label < 0).sum()) for part in parts]
    assert unknown == [20] * 5
    counts = np.stack([np.bincount(part.label[part.label >= 0], minlength=2) for part in parts])
    assert counts.sum() == 500
    assert counts.sum(axis=1).min() >= 5
    assert (counts.max(axis=1) / counts.sum(axis=1)).mean() > 0.8, "mostly of one class"


def islands(papers_each: Sequence[int]) -> TypedGraph:
    """Islands of papers that share an author each; islands 2k and 2k + 1 share a venue."""
    island = np.repeat(np.arange(len(papers_each)), papers_each)
    rows = range(len(island))
    return papers([0] * len(island), [(v, island[v]) for v in rows], [(v, island[v] // 2) for v in rows])


def test_communities_of_all_types_go_to_clients_the_one_with_the_most_papers_first() -> None:
    graph = islands([8, 8, 6, 6, 5, 4])
    parts = TypedDealing("Toy", 2, "louvain").deal(graph, 1, split=False)
    assert [part.ids["paper"].tolist() for part in parts] == [
        [f"p{v}" for v in range(16)],
        [f"p{v}" for v in range(16, 37)],
    ], "islands with a venue in common are one community; 12 and 9 go where fewer are"
    assert [part.ids["author"].tolist() for part in parts] == [["a0", "a1"], ["a2", "a3", "a4", "a5"]]


def test_more_clients_than_communities_of_papers_take_a_finer_resolution(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        parts = TypedDealing("Toy", 6, "louvain").deal(islands([8, 8, 6, 6, 5, 4]), 1, split=False)
    assert all(part.targets for part in parts)
    assert "communities for 6 clients, at resolution" in caplog.text
    alone = papers([0] * 5, [(0, 0)], [(0, 0)])
    assert len(TypedDealing("Toy", 5, "louvain").deal(alone, 1, split=False)) == 5, "a lone paper is a community"


def test_an_even_cut_by_communities_gives_clients_about_equal_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Communities of 8, 4 and 3 papers; three clients' share is 5, pieces have 4 at most: 4 4, 4 and 3."""
    monkeypatch.setattr(dealing, "SLACK", 1)
    graph = papers([0] * 15, [(v, 0 if v < 8 else 1 if v < 12 else 2) for v in range(15)], [])
    parts = TypedDealing("Toy", 3, "louvain_even").deal(graph, 1, split=False)
    assert [part.targets for part in parts] == [7, 4, 4], "the piece of 3 fits nowhere"


def test_communities_of_a_large_graph_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dealing, "LOUVAIN_EDGES", 4)
    with pytest.raises(InputError, match=r"at most 4 edges; toy has 14\. Take partition 'uniform' or 'dirichlet'"):
        TypedDealing("Toy", 2, "louvain").deal(papers(), 1, split=False)


@pytest.mark.parametrize(("shares", "counts"), [("60:20:20", [96, 32, 32]), ("64:16:20", [102, 26, 32])])
def test_the_split_is_of_the_whole_graph(shares: str, counts: list[int]) -> None:
    graph, tested = many(), []
    for fold in range(5):
        parts = TypedDealing("Toy", 4, fold=fold, shares=shares).deal(graph, 1)
        split = np.concatenate([part.split for part in parts])
        assert np.bincount(split[split >= 0]).tolist() == counts
        assert (split[np.concatenate([part.label for part in parts]) < 0] == -1).all()
        tested += [name for part in parts for name in part.ids["paper"][part.rows("test")]]
    assert len(tested) == len(set(tested)) == 160, "the same folds, whichever is the test set"


@given(st.integers(0, 20))
def test_whatever_the_seed_each_paper_is_at_one_client(seed: int) -> None:
    graph = many(60, unknown=10)
    for options in ({}, {"others": "divided"}, DIRICHLET, {"partition": "louvain"}, {"partition": "louvain_even"}):
        parts = TypedDealing("Toy", 4, **options).deal(graph, seed)
        assert sorted(name for part in parts for name in part.ids["paper"]) == sorted(graph.ids["paper"])


def test_a_given_split_stays(caplog: pytest.LogCaptureFixture) -> None:
    graph = many()
    given = TypedGraph(**{**vars(graph), "split": np.where(graph.label >= 0, 1, -1).astype(np.int8)})
    with caplog.at_level(logging.WARNING):
        parts = TypedDealing("Toy", 2).deal(given, 1, split=False)
    assert {int(split) for part in parts for split in part.split} == {-1, 1}
    assert "toy: 2 of 2 clients have no training nodes; they do not train." in caplog.text


# --- errors -----------------------------------------------------------------------------------------------------------


def test_a_client_without_target_nodes_is_named() -> None:
    with pytest.raises(InputError, match=r"toy: client 'b' has no nodes of type 'paper' \(1 such clients\); every"):
        parts_of(papers(), np.zeros(6, np.int64), ("a", "b"), "shared", 1)
    with pytest.raises(InputError, match=r"Toy.clients must be at most 6, the nodes of type 'paper' of toy; got 7"):
        TypedDealing("Toy", 7).deal(papers(), 1)


def test_alpha_without_dirichlet_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        TypedDealing("Toy", 2, alpha=0.1).deal(many(), 1)
    assert "Toy.alpha = 0.1 is of 'dirichlet' alone; partition is 'uniform'." in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "Toy.clients must be >= 1; got 0"),
        (
            {"partition": "iid"},
            "Toy.partition must be one of 'uniform', 'dirichlet', 'louvain', .*; got 'iid'",
        ),
        ({"alpha": 0.0}, "Toy.alpha must be > 0; got 0.0"),
        ({"others": "share"}, r"Toy.others must be one of 'shared', 'divided'; got 'share'\. Did you mean 'shared'\?"),
        ({"fold": 5}, r"Toy.fold must be in \[0, 4\]; got 5"),
        ({"shares": "80:10:10"}, "Toy.shares must be one of '60:20:20', '64:16:20'; got '80:10:10'"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TypedDealing(**{"of": "Toy", "clients": 2, **options})  # type: ignore[arg-type]
