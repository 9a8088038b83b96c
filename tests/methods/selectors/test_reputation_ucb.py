"""Reputation-UCB by hand: the equations as golden numbers, the variants, late and failed clients."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedgraft.contracts import Timing
from fedgraft.errors import InputError
from fedgraft.methods.selectors.reputation_ucb import ReputationUCB


def told(loss_sq, score):
    return {"loss_sq": loss_sq, "score": score}


def update(size):
    return {"w": np.full((2, 2), size, np.float32), "b": np.full(4, -size, np.float32)}


@pytest.fixture
def first(view, outcome):
    """A round of clients 0 (10 examples) and 1 (30 examples) in which the global score rose from 0.5 to 0.6."""
    seen = view(3, samples=[10, 30, 20], better="higher", score=0.5, deadline=4.0)
    happened = outcome(
        (0, 1),
        reports={0: told(4.0, 0.7), 1: told(1.0, 0.4)},
        updates={0: update(0.5), 1: update(2.0)},
        timings={0: Timing(1.0, 1.0), 1: Timing(2.0, 6.0)},
        score=0.6,
    )
    return seen, happened


def test_a_round_by_hand(first, view):
    selector = ReputationUCB()
    state = selector.update(selector.init(first[0]), *first)
    # (9): R = 0.5 * (0.7 - 0.5) and 0.5 * (0.4 - 0.5); (11): the score rose; (12): 10 * 2 and 30 * 1
    relevance = [math.exp(-0.5), math.exp(-2.0)]
    expected = [[0.1, 0.2, relevance[0], 20.0, 1.0, 1.0], [-0.05, -0.1, relevance[1], 30.0, 2.0, 6.0]]
    np.testing.assert_allclose(state["observations"][:2], expected)
    assert np.isnan(state["observations"][2]).all()
    # (13): data quality is 0 and 1 when normalised; (14), (15): 2 and 8 seconds of 4
    contribution = [0.5 * relevance[0] * 0.1 + 0.0, 0.5 * relevance[1] * -0.05 + 0.5]
    np.testing.assert_allclose(state["contribution"][:2], contribution)
    np.testing.assert_allclose(state["mean"], [contribution[0] - 0.25, contribution[1] - 1.0, 0.0])
    assert state["round_reward"] == pytest.approx(sum(contribution) - 1.0)  # (25)
    assert (state["pulls"].tolist(), state["score"]) == ([1, 1, 0], 0.6)
    # (28)
    bonus = 0.5 * np.sqrt(np.log(7) / np.array([2, 2, 1]))
    np.testing.assert_allclose(selector.index(state, view(3, round=7)), state["mean"] + bonus)


def test_a_paired_reputation_compares_a_client_with_itself(first):
    """(9) with the client's own score of the model that it was sent: 0.7 after 0.65, and 0.4 after 0.45."""
    selector, (seen, happened) = ReputationUCB(reputation="paired"), first
    assert selector.reports == {"update", "loss_sq", "score", "score_before"}
    reports = {k: {**happened.reports[k], "score_before": before} for k, before in ((0, 0.65), (1, 0.45))}
    state = selector.update(selector.init(seen), seen, replace(happened, reports=reports))
    np.testing.assert_allclose(state["observations"][:2, :2], [[0.025, 0.05], [-0.025, -0.05]])


def test_updates_far_from_the_model_count_where_the_score_fell(first, view, outcome):
    selector, (seen, _) = ReputationUCB(), first
    fell = outcome((0,), reports={0: told(4.0, 0.7)}, updates={0: update(0.5)}, score=0.4)
    state = selector.update(selector.init(seen), seen, fell)
    assert state["observations"][0, 2] == pytest.approx(1 - math.exp(-0.5))
    unscored = outcome((0,), reports={0: told(4.0, 0.7)}, updates={0: update(0.5)}, score=None)
    again = selector.update(state, view(3, better="higher", score=0.4, deadline=4.0), unscored)
    assert again["observations"][0, 2] == pytest.approx(1 - math.exp(-0.5)), "the last verdict stands"
    assert again["score"] == 0.4


def test_lower_scores_may_be_better(first, view):
    selector, (_, happened) = ReputationUCB(), first
    seen = view(3, samples=[10, 30, 20], better="lower", score=0.5, deadline=4.0)
    state = selector.update(selector.init(seen), seen, happened)
    np.testing.assert_allclose(state["observations"][:2, 1], [-0.2, 0.1])
    assert not state["rose"]


def test_a_client_without_validation_examples_gains_nothing(first):
    selector, (seen, happened) = ReputationUCB(), first
    happened.reports[0]["score"] = math.nan
    state = selector.update(selector.init(seen), seen, happened)
    assert state["observations"][0, :2].tolist() == [0.0, 0.0]
    assert np.isfinite(state["mean"]).all()


def test_failed_clients_pay_for_their_time(view, outcome):
    selector, seen = ReputationUCB(), view(3, deadline=4.0)
    happened = outcome((0, 1), reports={}, failed={0: "gone", 1: "late"}, timings={0: Timing(1.0, 1.0)})
    state = selector.update(selector.init(seen), seen, happened)
    assert state["mean"].tolist() == [-0.25, -0.5, 0.0]
    assert state["pulls"].tolist() == [1, 1, 0]


def test_a_late_client_is_rewarded_when_its_answer_arrives(first, view, outcome):
    selector, (seen, _) = ReputationUCB(), first
    ordered = selector.update(selector.init(seen), seen, outcome((0,), reports={}, timings={}, late=(0,)))
    assert (ordered["pulls"].tolist(), ordered["tries"].tolist()) == ([0, 0, 0], [1, 0, 0])
    arrival = {"reports": {0: told(1.0, 0.5)}, "updates": {0: update(0.0)}, "timings": {0: Timing(4.0, 8.0)}}
    arrived = selector.update(ordered, seen, outcome((), score=0.6, staleness={0: 2}, **arrival))
    assert arrived["mean"][0] == pytest.approx(0.5 - 0.5 * 12 / 4)
    assert (arrived["pulls"].tolist(), arrived["tries"].tolist()) == ([1, 0, 0], [1, 0, 0])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (-3.0 - 1.0) / 2),
        ({"estimate": "discounted", "discount": 0.5}, (-3.0 * 0.5 - 1.0) / 1.5),
        ({"estimate": "window", "window": 1}, -1.0),
    ],
)
def test_estimates_of_the_mean(options, expected, view, outcome):
    selector, seen = ReputationUCB(kappa=1.0, rho=0.0, **options), view(2, deadline=1.0)
    state = selector.init(seen)
    for seconds in (3.0, 1.0):
        happened = outcome((0,), reports={}, failed={0: "gone"}, timings={0: Timing(seconds, 0.0)})
        state = selector.update(state, seen, happened)
    assert selector.index(state, view(2, round=9))[0] == pytest.approx(expected)


def test_a_context_tells_fast_clients_from_slow_ones(view, outcome, g):
    selector = ReputationUCB(clients=2, context=True, rho=0.0, beta=0.0)
    seen = view(6, better="higher", score=0.5, deadline=1.0)
    state = selector.init(seen)
    for _ in range(8):
        timings = {k: Timing(0.1 * (k + 1), 0.0) for k in range(6)}
        reports, updates = {k: told(1.0, 0.5) for k in range(6)}, {k: update(0.1) for k in range(6)}
        state = selector.update(
            state, seen, outcome(tuple(range(6)), reports=reports, updates=updates, timings=timings)
        )
    assert np.array_equal(np.argsort(-selector.index(state, view(6, round=9))), np.arange(6))
    assert selector.select(state, seen, g).clients == (0, 1)


def test_greedy_adds_what_is_worth_its_time(view, g):
    selector, seen = ReputationUCB(clients=4, policy="greedy"), view(5, deadline=4.0)
    state = selector.init(seen)
    assert len(selector.select(state, seen, g).clients) == 4, "nobody is known"
    state["pulls"][:] = 1
    state["contribution"][:] = [0.3, 0.1, 0.4, 0.2, 9.0]
    state["seconds"][:] = [1.0, 1.0, 3.0, 4.0, 9.0]
    # client 0: 0.3 - 0.125; then 1: 0.1 - 0; then 2: 0.4 - 0.25; then 3: 0.2 - 0.125; client 4 is slower than allowed
    assert selector.select(state, seen, g).clients == (0, 1, 2, 3)
    state["contribution"][:] = [0.3, 0.1, 0.2, 0.1, 9.0]
    assert selector.select(state, seen, g).clients == (0, 1)


def test_stochastic_draws_from_the_softmax_of_the_indices(view):
    selector, seen = ReputationUCB(clients=1, policy="stochastic", rho=0.0), view(3)
    state = selector.init(seen)
    state["mean"][:] = np.log([1.0, 2.0, 5.0])
    g, drawn = np.random.default_rng(1), np.zeros(3)
    for _ in range(4000):
        drawn[selector.select(state, seen, g).clients[0]] += 1
    np.testing.assert_allclose(drawn / 4000, np.array([1, 2, 5]) / 8, atol=0.03)


def test_slow_clients_may_be_tried_late(view, g):
    selector = ReputationUCB(clients=2, prior="device")
    seen = view(4, samples=[30, 10, 10, 20], seconds=[9.0, 1.0, 2.0, 2.0], deadline=2.0)
    state = selector.init(seen)
    assert selector.index(state, seen).tolist() == [0.5 - 2.25, -0.25, -0.5, 0.25 - 0.5]
    assert selector.select(state, seen, g).clients == (1, 3)


def test_quotas_bring_everybody_in_and_let_nobody_in_too_often(view, g):
    state = ReputationUCB().init(view(3))
    state["mean"][:] = [9.0, 0.0, 0.0]
    state["tries"][:] = [8, 5, 1]
    late = view(3, round=11)
    assert ReputationUCB(clients=1).select(state, late, g).clients == (0,)
    assert ReputationUCB(clients=1, least_share=0.2).select(state, late, g).clients == (2,)
    assert 0 not in ReputationUCB(clients=2, most_share=0.7).select(state, late, g).clients
    assert ReputationUCB(clients=3, most_share=0.7).select(state, late, g).clients == (0, 1, 2)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("reputation_rate", -0.1), ("alpha", -1), ("kappa", math.inf), ("estimate", "median"), ("discount", 0)),
        *(("window", 0), ("ridge", 0), ("policy", "best"), ("temperature", 0), ("least_share", 1), ("most_share", 0)),
    ],
)
def test_impossible_options_are_refused(option, value):
    with pytest.raises(InputError, match=rf"^ReputationUCB\.{option} must be"):
        ReputationUCB(**{option: value})
