"""Oort: utility, speed, exploration, pacer, blacklist."""

import math

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.selectors.oort import Oort


def told(state, **given):
    return {**state, **{name: np.asarray(value) for name, value in given.items()}}


def tried_state(selector, view, utility, **given):
    n = len(utility)
    state = selector.init(view(n))
    return told(state, utility=np.array(utility, float), picks=np.ones(n, int), last_round=np.ones(n, int), **given)


def test_utility_is_size_times_root_mean_squared_loss(view, outcome):
    selector = Oort()
    seen = view(3, samples=[10, 20, 30], round=4)
    reports = {0: {"loss_sq": 4.0}, 1: {"loss_sq": 0.25}}
    happened = outcome((0, 1, 2), reports=reports, failed={2: "no reply"}, seconds={0: 3.0, 1: 5.0, 2: 7.0})
    state = selector.update(selector.init(seen), seen, happened)
    assert state["utility"].tolist() == [20.0, 10.0, 0.0]
    assert state["last_round"].tolist() == [4, 4, 4]
    assert state["picks"].tolist() == [1, 1, 1]
    assert state["seconds"].tolist() == [3.0, 5.0, 7.0]
    assert state["history"][-1] == 15.0


def test_score_is_normalised_utility_plus_staleness_bonus(view, g):
    # Round 5, equal speed: gains (U - 10) / 30 = 0, 1/3, 1 and bonus sqrt(0.1 ln 5 / L), the largest for L = 1.
    selector = Oort(clients=1, epsilon=0, epsilon_min=0, cutoff=1.0, clip=1.0)
    state = tried_state(selector, view, [10, 20, 40])
    assert selector.select(state, view(3, round=5), g).clients == (2,)
    bonus = [math.sqrt(0.1 * math.log(5) / last) for last in (1, 4)]
    assert bonus == pytest.approx([0.40118, 0.20059], abs=1e-5)
    # 19/20 of the best utility and the larger bonus (0.9 + 0.401) beat the best with the smaller one (1 + 0.201).
    state = told(tried_state(selector, view, [10, 19, 20]), last_round=[4, 1, 4])
    assert selector.select(state, view(3, round=5), g).clients == (1,)


def test_slow_clients_are_penalised_by_the_square_of_their_delay(view, g):
    # T is sorted([1, 1, 2, 4])[int(0.3 * 4)] = 1; client 3 takes 4 T: its score 1 becomes 1/16; client 2's 0.5 * 1/4.
    selector = Oort(clients=1, epsilon=0, epsilon_min=0, cutoff=1.0, staleness=0, clip=1.0)
    state = tried_state(selector, view, [0, 10, 25, 40])
    seen = view(4, seconds=[1, 1, 2, 4], round=2)
    assert selector._slowness(state, seen).tolist() == [1, 1, 1 / 4, 1 / 16]
    assert selector.select(state, seen, g).clients == (2,)  # 0.5 / 4 = 0.125 > 1 / 16 > 0
    assert Oort(clients=1, epsilon=0, epsilon_min=0, cutoff=1.0, percentile=100, clip=1.0).select(
        told(state) | {"percentile": 100.0}, seen, g
    ).clients == (3,)
    measured = told(state, seconds=[1.0, 1.0, 2.0, 1.0])
    assert selector.select(measured, seen, g).clients == (3,)


def test_cut_off_samples_among_scores_near_the_kth_best(view):
    selector = Oort(clients=1, epsilon=0, epsilon_min=0, cutoff=0.5, staleness=0, clip=1.0)
    state = tried_state(selector, view, [0.1, 40, 60, 100.1])  # scores 0, 0.399, 0.599, 1
    g = np.random.default_rng(0)
    drawn = [selector.select(state, view(4, round=2), g).clients[0] for _ in range(2000)]
    assert set(drawn) == {2, 3}
    assert np.mean(np.array(drawn) == 3) == pytest.approx(1 / 1.599, abs=0.03)


def test_first_rounds_explore_in_proportion_to_size(view):
    selector = Oort(clients=1)
    state, g = selector.init(view(3)), np.random.default_rng(0)
    seen = view(3, samples=[10, 20, 50])
    drawn = np.array([selector.select(state, seen, g).clients[0] for _ in range(3000)])
    assert np.allclose([(drawn == k).mean() for k in range(3)], [1 / 8, 2 / 8, 5 / 8], atol=0.03)


def test_exploration_share_decays_to_its_floor(view, g):
    selector = Oort(clients=10, blacklist=0)
    state = told(selector.init(view(40)), picks=[1] * 20 + [0] * 20, last_round=[1] * 20 + [0] * 20)

    def explored(round):
        return sum(k >= 20 for k in selector.select(state, view(40, round=round), g).clients)

    # 10 * 0.9 * 0.98^(R - 1): 9, then 8.82, then 6.01 (R = 21), and 2 from the floor of 0.2 on
    assert [explored(round) for round in (1, 21, 500)] == [9, 6, 2]
    assert np.mean([explored(2) for _ in range(400)]) == pytest.approx(8.82, abs=0.06)


def test_cohort_is_filled_where_few_are_left(view, g):
    selector = Oort(clients=4)
    state = told(selector.init(view(4)), picks=[1, 1, 1, 0], last_round=[1, 1, 1, 0])
    assert selector.select(state, view(4, round=2), g).clients == (0, 1, 2, 3)
    state = told(state, picks=[50, 1, 1, 1], last_round=[1, 1, 1, 1])
    assert selector.select(state, view(4, round=2), g).clients == (0, 1, 2, 3)


def test_often_picked_clients_are_excluded_up_to_a_share(view, g):
    selector = Oort(clients=2, epsilon=0, epsilon_min=0)
    state = tried_state(selector, view, [9.0] * 5 + [90.0] * 5)
    state = told(state, picks=[1] * 5 + [11, 12, 13, 11, 10])
    # 30 % of 10; 5 before 8 by index; ten is not more than ten
    assert set(np.flatnonzero(selector._blacklisted(state))) == {5, 6, 7}
    state = told(state, picks=[1] * 8 + [11, 10])
    assert set(np.flatnonzero(selector._blacklisted(state))) == {8}
    only_excluded = view(10, round=2, available=[False] * 8 + [True, False])
    assert selector.select(state, only_excluded, g).clients == (8,)
    assert not Oort(blacklist=0)._blacklisted(state).any()


def test_pacer_relaxes_on_flat_utility_and_tightens_on_sharp_change(view):
    pacer = Oort(pacer_rounds=2)._pacer
    assert pacer(30.0, np.array([5, 5, 5, 5.9]), 4) == 35.0  # changed by 0.9 <= 0.1 * 10
    assert pacer(30.0, np.array([5, 5, 30, 31.0]), 4) == 25.0  # by 51 >= 5 * 10
    assert pacer(30.0, np.array([5, 5, 10, 10.0]), 4) == 30.0
    assert pacer(30.0, np.array([5, 5, 5, 5.0]), 5) == 30.0  # not at the end of a window
    assert pacer(30.0, np.array([0, 0, 0, 0.0]), 2) == 30.0  # before the second window has ended
    assert pacer(98.0, np.array([5, 5, 5, 5.0]), 4) == 100.0
    assert pacer(7.0, np.array([5, 5, 90, 90.0]), 4) == 5.0
    assert pacer(3.0, np.array([5, 5, 90, 90.0]), 4) == 3.0


def test_a_failed_client_is_no_longer_untried(view, outcome, g):
    selector = Oort(clients=1, epsilon=1.0, epsilon_decay=1.0)
    state = selector.update(selector.init(view(2)), view(2), outcome((0,), reports={}, failed={0: "no reply"}))
    assert all(selector.select(state, view(2, round=2), g).clients == (1,) for _ in range(10))


def test_a_loss_that_is_not_finite_changes_no_utility(view, outcome):
    selector = Oort(clients=1)
    happened = outcome((0,), reports={0: {"loss_sq": float("inf")}})
    assert selector.update(selector.init(view(2)), view(2), happened)["utility"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("clients", -1),
        ("epsilon", 1.5),
        ("epsilon_decay", 0),
        ("epsilon_min", 0.95),
        ("cutoff", 2),
        ("alpha", -1),
        ("percentile", 0),
        ("pacer_rounds", 0),
        ("clip", 0),
        ("staleness", -1),
        ("blacklist", -1),
        ("blacklist_share", 1.1),
        ("explore_window", 0.5),
    ],
)
def test_errors_name_the_option(option, value):
    with pytest.raises(InputError, match=rf"Oort\.{option} must be .*; got {value}\."):
        Oort(**{option: value})


def test_more_clients_than_there_are(view):
    with pytest.raises(InputError, match=r"Oort\.clients must be in \[0, 4\]"):
        Oort(clients=5).init(view(4))
