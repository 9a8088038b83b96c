"""Scores of a ranking: by hand, against scikit-learn, and how long they take."""

import time

import numpy as np
import pytest
from sklearn.metrics import ndcg_score, roc_auc_score

from fedgraft.domains.ranking.metrics import score_users
from fedgraft.domains.ranking.shards import Ids, ItemLists
from fedgraft.errors import InputError


def lists(*of: list[int]) -> ItemLists:
    user = np.repeat(np.arange(len(of)), [len(items) for items in of])
    return ItemLists.make(user, np.array([i for items in of for i in items], np.int64), len(of))


def scores(*rows: list[float]) -> np.ndarray:
    return np.array(rows, np.float32)


def test_three_users_by_hand() -> None:
    # User 0: known item 0; order 4, 1, 3, 2; relevant 1 and 2. User 1 has nothing relevant. User 2: item 3 is first.
    rows = scores([9, 3, 1, 2, 4], [1, 2, 3, 4, 5], [1, 2, 3, 9, 4])
    found = score_users(rows, lists([0], [], [4]), lists([1, 2], [], [3]), k=2)
    assert found.user.tolist() == [0, 2]
    assert found.auc.tolist() == [1 / 4, 1.0]
    assert found.recall.tolist() == [1 / 2, 1.0]
    second = 1 / np.log2(3)
    assert found.ndcg == pytest.approx([second / (1 + second), 1.0])
    assert found.sums() == pytest.approx({"users": 2, "auc": 1.25, "ndcg": 1 + second / (1 + second), "recall": 1.5})


def test_ties_are_ordered_at_random_in_expectation() -> None:
    found = score_users(scores([0, 0, 0, 0]), lists([]), lists([2]), k=2)
    assert found.auc.tolist() == [0.5]
    assert found.recall.tolist() == [0.5]
    assert found.ndcg == pytest.approx([(1 + 1 / np.log2(3)) / 4])
    # Two of three tied items fit below the first one.
    found = score_users(scores([5, 1, 1, 1, 0]), lists([]), lists([1, 4]), k=3)
    assert found.recall == pytest.approx([2 / 3 / 2])
    assert found.auc == pytest.approx([(1 + 0) / 6])


def example(g: np.random.Generator, users: int, items: int, levels: int = 0) -> tuple[np.ndarray, ItemLists, ItemLists]:
    """Scores, with ties where there are `levels`, and disjoint lists; user 0 has nothing relevant."""
    rows = g.normal(size=(users, items)).astype(np.float32)
    if levels:
        rows = np.rint(levels * rows).astype(np.float32)
    part = g.choice(3, (users, items), p=[0.7, 0.2, 0.1])
    part[0, part[0] == 2] = 0
    return rows, *(ItemLists.make(*np.nonzero(part == number), users) for number in (1, 2))


@pytest.mark.parametrize("levels", [0, 1, 3])
@pytest.mark.parametrize("k", [1, 10, 50, 300])
def test_scikit_learn_says_the_same(levels: int, k: int) -> None:
    rows, known, relevant = example(np.random.default_rng(levels), users=40, items=200, levels=levels)
    found = score_users(rows, known, relevant, k)
    assert found.user.tolist() == np.flatnonzero(relevant.counts).tolist()
    assert 0 not in found.user
    for place, user in enumerate(found.user):
        one = np.array([user])
        truth = np.isin(np.arange(200), relevant.of(one))
        candidates = ~np.isin(np.arange(200), known.of(one))
        right, given = truth[candidates], rows[user, candidates]
        assert found.auc[place] == pytest.approx(roc_auc_score(right, given))
        assert found.ndcg[place] == pytest.approx(ndcg_score(right[None], given[None], k=k))
        if not levels:
            first = np.argsort(-given, kind="stable")[:k]
            assert found.recall[place] == pytest.approx(right[first].sum() / right.sum())


def test_users_in_parts_add_up_and_scores_stay_as_they_are() -> None:
    rows, known, relevant = example(np.random.default_rng(5), users=30, items=60)
    before = rows.copy()
    whole = score_users(rows, known, relevant, 5).sums()
    assert (rows == before).all()

    def part(lists: ItemLists, users: Ids) -> ItemLists:
        return ItemLists.make(np.repeat(np.arange(len(users)), lists.counts[users]), lists.of(users), len(users))

    parts = [score_users(rows[u], part(known, u), part(relevant, u), 5).sums() for u in np.split(np.arange(30), 3)]
    assert whole == pytest.approx({name: sum(sums[name] for sums in parts) for name in whole})


def test_nobody_relevant_and_nobody_else() -> None:
    nothing = {"users": 0, "auc": 0, "ndcg": 0, "recall": 0}
    assert score_users(scores([1, 2]), lists([0]), lists([])).sums() == nothing
    assert score_users(np.zeros((0, 4), np.float32), lists(), lists()).sums() == nothing
    everything = score_users(scores([1, 2, 3]), lists([0]), lists([1, 2]))
    assert (everything.auc[0], everything.ndcg[0], everything.recall[0]) == (0.5, 1.0, 1.0)


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_makes_its_user_nan(broken: float) -> None:
    found = score_users(scores([1, broken, 3], [1, 2, 3]), lists([], []), lists([0], [2]))
    for values in (found.auc, found.ndcg, found.recall):
        assert np.isnan(values).tolist() == [True, False]


def test_k_must_be_a_length() -> None:
    with pytest.raises(InputError, match="k must be at least 1; got 0"):
        score_users(scores([1, 2]), lists([]), lists([0]), k=0)


def test_a_ranking_of_movielens_size_takes_a_fraction_of_a_tenth_of_a_second() -> None:
    rows, known, relevant = example(np.random.default_rng(0), users=943, items=1682)
    took = []
    for _ in range(5):
        start = time.process_time()
        score_users(rows, known, relevant)
        took.append(time.process_time() - start)
    assert min(took) < 0.1
