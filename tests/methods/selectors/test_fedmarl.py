"""FedMarl: what agents see and are paid, who then trains, and that a team learns whom to stop."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedgraft.contracts import Timing
from fedgraft.errors import InputError
from fedgraft.methods.selectors.fedmarl import FedMarl, utility
from fedgraft.testing import check_selector

SMALL = FedMarl(clients=3, hidden=(), epsilon=0.0, epsilon_min=0.0)


def rng(seed=0):
    return np.random.default_rng(seed)


def answers(losses, seconds=1.0):
    return {k: {"loss": loss, "loss_sq": 1.0, "seconds": seconds} for k, loss in losses.items()}


def deciding(view, per_loss=0.0, bias=0.0):
    """A state whose agents think that training is worth so much per loss more than stopping."""
    state = SMALL.init(view)
    weight = np.zeros((2, 10), np.float32)
    weight[1, 0] = per_loss
    online = {"0.weight": weight, "0.bias": np.array([0, bias], np.float32)}
    return {**state, "loss": 1.0, "agent": {**state["agent"], "online": online}}


# Who tries, and who trains.


def test_as_many_candidates_as_wanted_try_an_epoch(view, g):
    probe = SMALL.probe(SMALL.init(view(6)), view(6, available=[True] * 5 + [False]), g)
    assert (len(probe.clients), probe.kind, probe.epochs) == (3, "train", 1)
    assert 5 not in probe.clients
    assert len(SMALL.probe(SMALL.init(view(6)), view(6, bytes_left=60 + 100), g).clients) == 1
    assert SMALL.probe(SMALL.init(view(6)), view(6, bytes_left=60 + 99), g) is None


def test_those_train_whose_agents_say_so(view, g):
    seen = view(6, probed=answers({0: 1.0, 2: 3.0, 5: 4.0}))
    assert SMALL.select(deciding(seen, 1.0, -2.0), seen, g).clients == (2, 5)


def test_the_nearest_to_it_trains_where_all_would_stop(view, g):
    seen = view(6, probed=answers({0: 1.0, 2: 3.0, 5: 2.0}))
    assert SMALL.select(deciding(seen, 1.0, -9.0), seen, g).clients == (2,)


def test_somebody_else_trains_where_no_candidate_can_be_paid_for(view, g):
    prices = [100, 100, 10, 100]
    seen = view(4, probed=answers({0: 1.0, 1: 1.0}), bytes_per_client=prices, bytes_left=50)
    assert SMALL.select(deciding(seen, 1.0), seen, g).clients == (2,)


def test_cohorts_are_random_where_nobody_could_try(view, g):
    assert len(SMALL.select(SMALL.init(view(6)), view(6), g).clients) == 3


def test_decisions_are_random_less_and_less(view):
    selector = replace(SMALL, epsilon=1.0, epsilon_decay=0.5)

    def trained(round):
        seen = view(6, round=round, probed=answers({0: 1.0, 1: 1.0, 2: 1.0}))
        return np.mean([len(selector.select(deciding(seen, 1.0), seen, rng(seed)).clients) for seed in range(200)])

    assert 1.3 < trained(1) < 1.9  # a half of three, but at least one
    assert trained(20) == 3


# What agents see.


def test_observations_by_hand(view, outcome):
    seen = view(4, round=5, samples=[10, 20, 30, 20], seconds=[2, 2, 2, 9], probed=answers({1: 3.0, 2: 1.0}, 4.0))
    state = SMALL.init(seen)
    state["sending"][1] = [0, 6, 8]
    tried, found = SMALL._observed(state, seen)
    assert tried.tolist() == [1, 2]
    # Losses by their first mean, 2; seconds by 2; bytes and samples by their means; round 5 of 100.
    assert found[0] == pytest.approx([1.5, 0, 0, 2, 0, 3, 4, 1, 1, 0.05])
    assert found[1] == pytest.approx([0.5, 0, 0, 2, 0, 0, 0, 1, 1.5, 0.05])
    timings = {2: Timing(1.0, 7.0)}
    after = SMALL.update(state, seen, outcome((2,), timings=timings))
    assert after["loss"] == 2.0
    assert after["probing"].tolist() == [[0, 0, 0], [0, 0, 4], [0, 0, 4], [0, 0, 0]]
    assert after["sending"].tolist() == [[0, 0, 0], [0, 6, 8], [0, 0, 7], [0, 0, 0]]
    later = view(4, round=6, seconds=[2, 2, 2, 9], probed=answers({2: 8.0}, 6.0))
    assert SMALL._observed(after, later)[1][0, :7] == pytest.approx([4, 0, 2, 3, 0, 0, 3.5])


def test_a_loss_out_of_all_proportion_is_cut(view):
    seen = view(4, probed=answers({1: 1e30}))
    assert SMALL._observed({**SMALL.init(seen), "loss": 1.0}, seen)[1][0, 0] == 10


# What they are paid.


def test_the_utility_rises_with_what_is_good():
    assert utility(1.0, "higher") == utility(0.0, "lower") == 0
    for score in (-3.0, 0.2, 0.9, 1.5, 9.0):
        by_hand = 20 / (1 + math.exp(0.35 * (1 - score))) - 10
        assert utility(score, "higher") == pytest.approx(by_hand)
        assert utility(1 - score, "lower") == pytest.approx(by_hand)
    assert utility(0.9, "higher") > utility(0.8, "higher")
    assert utility(1e9, "lower") == -10


def test_rewards_by_hand(view, outcome):
    selector = FedMarl(clients=2, score_weight=2.0, seconds_weight=0.5, bytes_weight=0.25)
    seen = view(
        4,
        score=0.5,
        better="higher",
        seconds=[8, 3, 3, 3],
        bytes_per_client=[100, 300, 50, 50],
        probed=answers({0: 1.0, 1: 1.0}, 2.0),
    )
    rise = utility(0.6, "higher") - utility(0.5, "higher")
    told = outcome((1,), score=0.6, seconds={1: 4.0})
    expected = 2 * rise - 0.5 * (2 + 4) / (2 + 8) - 0.25 * 300 / 400
    assert selector.reward(seen, told, np.array([0, 1])) == pytest.approx(expected)
    unscored = outcome((1,), score=None, seconds={1: 4.0})
    assert selector.reward(seen, unscored, np.array([0, 1])) == pytest.approx(expected - 2 * rise)


# What they learn.


def test_a_round_is_learnt_from_when_the_next_one_is_known(view, outcome):
    state = SMALL.init(view(6))
    first = view(6, round=1, probed=answers({0: 1.0, 3: 2.0}))
    state = SMALL.update(state, first, outcome((3,)))
    assert len(state["agent"]["memory"]["rewards"]) == 0
    assert state["waiting"]["actions"].tolist() == [0, 1, 0]
    reward = state["waiting"]["reward"]
    unasked = SMALL.update(state, view(6, round=2), outcome((1,)))
    assert unasked["waiting"] is state["waiting"]
    state = SMALL.update(unasked, view(6, round=3, probed=answers({1: 1.0, 2: 1.0, 4: 1.0})), outcome((1, 2)))
    memory = state["agent"]["memory"]
    assert memory["rewards"].tolist() == [np.float32(reward)]
    assert np.isnan(memory["observations"][0, 2]).all(), "two of three tried"
    assert not np.isnan(memory["following"][0]).any()
    assert memory["actions"].tolist() == [[0, 1, 0]]


def test_a_team_learns_whom_to_stop(view, outcome):
    """Clients 0 to 2 raise the score when they train, 3 to 5 take long."""
    selector = FedMarl(clients=4, hidden=(16,), gamma=0.0, rate=0.01, steps=4, seconds_weight=0.0, bytes_weight=1.0)
    prices = [10, 10, 10, 400, 400, 400]
    state, g = selector.init(view(6)), rng()
    for round in range(1, 101):
        seen = view(6, round=round, score=0.5, better="higher", bytes_per_client=prices, bytes_per_probe=[5] * 6)
        tried = selector.probe(state, seen, g).clients
        seen = replace(seen, probed=answers(dict.fromkeys(tried, 1.0)))
        cohort = selector.select(state, seen, g).clients
        good = len({0, 1, 2} & {*cohort})
        state = selector.update(state, seen, outcome(cohort, score=0.5 + 0.2 * good))
    seen = view(6, round=100, bytes_per_client=prices, probed=answers(dict.fromkeys(range(6), 1.0)))
    assert replace(selector, epsilon=0.0, epsilon_min=0.0).select(state, seen, g).clients == (0, 1, 2)


@pytest.mark.slow
def test_small_options_keep_the_laws():
    check_selector(FedMarl, hidden=(), history=1, memory=2, steps=0, clients=1)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("clients", -1),
        ("history", 0),
        ("score_weight", -1.0),
        ("seconds_weight", -1.0),
        ("bytes_weight", -1.0),
        ("epsilon", 1.5),
        ("epsilon_decay", 0.0),
        ("epsilon_min", -0.1),
        ("hidden", (0,)),
        ("rate", 0.0),
        ("gamma", 1.0),
        ("steps", -1),
        ("batch", 0),
        ("memory", 0),
        ("copy_every", 0),
    ],
)
def test_impossible_options_are_refused(option, value):
    with pytest.raises(InputError, match=rf"^FedMarl\.{option} must be"):
        FedMarl(**{option: value})


def test_more_clients_than_there_are_are_refused(view):
    with pytest.raises(InputError, match=r"FedMarl\.clients must be in \[0, 4\]"):
        FedMarl(clients=5).init(view(4))
