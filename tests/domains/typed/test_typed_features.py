import numpy as np
import pytest
from scipy import sparse

from fedgraft.domains.examples import compact
from fedgraft.domains.typed.partitions import TypedDealing, parts_of, structural_features
from fedgraft.domains.typed.shards import TypedGraph
from fedgraft.errors import InputError
from helpers.toy_typed import APPEARS, WRITES, papers


def test_counts_of_neighbours_come_first() -> None:
    found = structural_features(papers(), 8)
    # Types in the order of their names: author and venue; then numbers for author, paper, venue.
    assert found.shape == (6, 2 + 3 * 8)
    assert found.dtype == np.float32
    assert found[:, 0] == pytest.approx(np.log1p([2, 1, 1, 2, 1, 1]))
    assert found[:, 1] == pytest.approx(np.log1p([1] * 6))


def test_papers_with_the_same_neighbours_are_alike_and_others_are_not() -> None:
    found = structural_features(papers(), 64)
    signs = found[:, 2:66]  # of authors
    assert signs[4] == pytest.approx(signs[5]), "both have the one author a3"
    assert set(np.unique(signs[4])) == {-1, 1}
    assert abs(signs[4] @ signs[1]) / 64 < 0.5
    assert (signs**2).mean(axis=1) == pytest.approx(np.ones(6))
    # p0 has a0 and a1: the mean of their signs, scaled.
    mean = signs[1] + structural_features(papers(writes=[(0, 0)]), 64)[0, 2:66]
    assert signs[0] == pytest.approx(mean / np.sqrt((mean**2).mean()), abs=1e-6)


def test_a_paper_does_not_reach_itself() -> None:
    # Of p1 and p2 one author is the same; p0 has an author of its own.
    graph = papers([0, 1, 0], [(0, 0), (1, 1), (2, 1)], [(0, 0)])
    found = structural_features(graph, 64)
    of_papers = found[:, 2 + 64 : 2 + 128]
    assert (of_papers[0] == 0).all(), "nobody else"
    assert set(np.unique(of_papers[1])) == {-1, 1}, "p2 alone, with its signs"
    assert (of_papers[1] != of_papers[2]).any()


def test_clients_agree_without_a_word() -> None:
    whole = structural_features(papers())
    # Each client has all authors and venues of its papers, but not all papers of these.
    for part in parts_of(papers(), np.array([0, 0, 0, 1, 1, 1]), ("a", "b"), "shared", 1):
        rows = np.flatnonzero(np.isin(papers().ids["paper"], part.ids["paper"]))
        own = structural_features(part)
        authors, venues = slice(2, 66), slice(130, 194)
        assert own[:, authors] == pytest.approx(whole[rows][:, authors])
        assert own[:, venues] == pytest.approx(whole[rows][:, venues])
        assert own.shape[1] == whole.shape[1]


def test_ids_are_compared_as_text_and_the_order_of_edges_does_not_matter() -> None:
    graph = papers()
    numbers = {kind: np.arange(len(ids)).astype(object) for kind, ids in graph.ids.items()}
    texts = {kind: np.array([str(k) for k in ids], dtype=object) for kind, ids in numbers.items()}
    one, other = (TypedGraph(**{**vars(graph), "ids": ids}) for ids in (numbers, texts))
    np.testing.assert_array_equal(structural_features(one), structural_features(other))
    again = papers(writes=WRITES[::-1], appears=APPEARS[::-1])
    np.testing.assert_array_equal(structural_features(again), structural_features(graph))


def test_two_steps_to_types_behind_and_within_one() -> None:
    found = structural_features(papers(cites=[(0, 1), (2, 3)]), 4)
    assert found.shape == (6, 3 + 3 * 4)
    assert np.isfinite(found).all()


def test_features_of_a_few_numbers_tell_classes_apart() -> None:
    # Two communities of 60 papers with authors of their own, dealt to 4 clients.
    g = np.random.default_rng(0)
    label = np.arange(120) % 2
    writes = [(v, int(g.integers(10)) + 10 * label[v]) for v in range(120) for _ in range(2)]
    parts = TypedDealing("Toy", 4).deal(papers(label, writes, [(v, 0) for v in range(120)]), 1)
    features = np.concatenate([structural_features(part) for part in parts])
    label = np.concatenate([part.label for part in parts])
    train = np.arange(120) % 3 > 0
    centre = np.stack([features[train & (label == k)].mean(axis=0) for k in (0, 1)])
    guess = ((features[:, None] - centre) ** 2).sum(axis=2).argmin(axis=1)
    assert (guess == label)[~train].mean() > 0.85


@pytest.mark.parametrize("width", [0, 513])
def test_bad_width(width: int) -> None:
    with pytest.raises(InputError, match=rf"width must be 1\.\.512; got {width}"):
        structural_features(papers(), width)
    assert structural_features(papers(), 511).shape == (6, 2 + 3 * 511)


def test_features_are_sparse_where_few_are_other_than_zero() -> None:
    few, many = np.eye(5, dtype=np.float32), np.ones((2, 2), np.float32)
    assert sparse.issparse(compact(few))
    assert sparse.issparse(compact(sparse.csr_matrix(few)))
    assert isinstance(compact(many), np.ndarray)
    assert isinstance(compact(sparse.csr_matrix(many)), np.ndarray)
