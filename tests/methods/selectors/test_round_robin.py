"""Round robin: in turn, whatever clients are like."""

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.selectors.round_robin import RoundRobin


def played(selector, view, outcome, rounds, **seen):
    """The cohorts of so many rounds."""
    state, g, cohorts = selector.init(view()), np.random.default_rng(0), []
    for round in range(1, rounds + 1):
        now = view(round=round, **seen)
        cohorts.append(selector.select(state, now, g).clients)
        state = selector.update(state, now, outcome(cohorts[-1]))
    return cohorts


def test_all_have_had_a_turn_before_anybody_has_another(view, outcome):
    cohorts = played(RoundRobin(clients=2), lambda **seen: view(6, **seen), outcome, 9)
    for begin in (0, 3, 6):
        assert sorted(sum(cohorts[begin : begin + 3], ())) == list(range(6))


def test_gaps_between_turns_differ_by_one_where_cohorts_do_not_divide_the_clients(view, outcome):
    cohorts = played(RoundRobin(clients=3), lambda **seen: view(7, **seen), outcome, 70)
    turns = [[round for round, cohort in enumerate(cohorts) if k in cohort] for k in range(7)]
    assert {int(gap) for each in turns for gap in np.diff(each)} == {2, 3}


def test_who_was_away_is_next(view, outcome):
    state, g = RoundRobin(clients=2).init(view(4)), np.random.default_rng(0)
    state["last"][:] = [3, 1, 2, 0]
    away = view(4, round=4, available=[True, True, True, False])
    assert RoundRobin(clients=2).select(state, away, g).clients == (1, 2)
    state = RoundRobin(clients=2).update(state, away, outcome((1, 2)))
    assert RoundRobin(clients=2).select(state, view(4, round=5), g).clients == (0, 3)


def test_terms_are_how_long_each_has_waited(view):
    explanation = RoundRobin().explanation({"last": np.array([3, 0, 1, 2])}, view(4, round=4))
    assert explanation["score"].tolist() == [1, 4, 3, 2]


def test_more_clients_than_there_are_are_refused(view):
    with pytest.raises(InputError, match=r"RoundRobin\.clients must be in \[0, 4\]"):
        RoundRobin(clients=5).init(view(4))
