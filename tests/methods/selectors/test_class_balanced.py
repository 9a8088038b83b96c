"""ClassBalanced: equal turns, in cohorts whose classes together are those of all clients."""

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.selectors.class_balanced import ClassBalanced


def told(classes):
    """The state once all have had a turn, of clients with one class each."""
    return {"turns": np.ones(len(classes), np.int64), "labels": np.eye(5)[classes]}


def played(selector, view, outcome, classes, rounds):
    """The cohorts of so many rounds, of clients with one class each, who tell it as they train."""
    state, g, cohorts = selector.init(view(len(classes))), np.random.default_rng(0), []
    for round in range(1, rounds + 1):
        now = view(len(classes), round=round)
        cohorts.append(selector.select(state, now, g).clients)
        shares = {k: {f"label_{c}": float(c == classes[k]) for c in range(5)} for k in cohorts[-1]}
        state = selector.update(state, now, outcome(cohorts[-1], reports=shares))
    return cohorts


def test_each_cohort_has_all_classes_once_these_are_known(view, outcome):
    """By hand: of two clients of each of three classes two cohorts can be made with one of each."""
    classes = [0, 0, 1, 1, 2, 2]
    cohorts = played(ClassBalanced(clients=3), view, outcome, classes, 8)
    assert all({classes[k] for k in cohort} == {0, 1, 2} for cohort in cohorts[2:])


def test_all_have_had_a_turn_before_anybody_has_another(view, outcome):
    cohorts = played(ClassBalanced(clients=2), view, outcome, [0, 0, 0, 1, 2, 3], 9)
    for begin in (0, 3, 6):
        assert sorted(sum(cohorts[begin : begin + 3], ())) == list(range(6))


def test_a_client_counts_as_its_examples_do(view):
    """A small client of each class is no match for a large one: 60 and 30 against 30 is nearer to 2 : 1 than others."""
    state = told([0, 0, 1, 1])
    now = view(4, samples=[60, 60, 30, 30])
    assert set(ClassBalanced(clients=2).select(state, now, np.random.default_rng(0)).clients) in [
        {0, 2}, {0, 3}, {1, 2}, {1, 3},
    ]  # fmt: skip


def test_with_one_partition_it_is_random_in_turn(view):
    state, now = told([0, 0, 1, 1]), view(4)
    drawn = {ClassBalanced(2, 1).select(state, now, np.random.default_rng(seed)).clients for seed in range(40)}
    assert len(drawn) == 6


def test_terms_are_turns_and_distances(view):
    explanation = ClassBalanced().explanation(told([0, 0, 1, 1]), view(4))
    assert explanation["turns"].tolist() == [1] * 4
    np.testing.assert_allclose(explanation["distance of its classes"], 0.5)


def test_more_clients_than_there_are_are_refused(view):
    with pytest.raises(InputError, match=r"ClassBalanced\.clients must be in \[0, 4\]"):
        ClassBalanced(clients=5).init(view(4))
