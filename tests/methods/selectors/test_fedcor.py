"""FedCor: the greedy choice against the covariance written out, the likeliest embedding, and who is asked when."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from fedgraft.errors import InputError
from fedgraft.methods.selectors.fedcor import FedCor, embedding, telling
from fedgraft.testing import check_selector

SHORT = FedCor(clients=2, warm_up=2, every=3)
"""Cohorts of rounds 1, 2, 5, 8 ... are uniform: all are asked in 1, 2, 3, 5, 6, 8, 9 ..."""


def answers(*losses):
    return {k: {"loss": loss, "loss_sq": 1.0, "seconds": 1.0} for k, loss in enumerate(losses) if loss is not None}


def played(selector, view, outcome, losses, clients=4):
    """The state after a round for each list of losses, in which all are asked; None = nobody is."""
    state = selector.init(view(clients))
    for round, each in enumerate(losses, 1):
        seen = view(clients, round=round, probed=answers(*each) if each else {})
        state = selector.update(state, seen, outcome((0, 1)))
    return state


# The choice.


def test_the_choice_by_hand():
    # Clients 0, 1 and 2 go together, 3 goes by itself; 1 tells of them as well as 0 but has been chosen before.
    points = np.array([[2.0, 2.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    shares, worth = np.full(4, 0.25), np.array([1.0, 0.9, 1.0, 1.0])
    # sum_i p_i S_ik / sqrt(S_kk): 0.25 * 2 * 5 / 2 = 1.25 for 0, 0.9 of it for 1, 1.25 * 1 for 2 (less by noise), 0.25.
    order = telling(points, 0.01, shares, worth, np.arange(4), 4)[0].tolist()
    assert order[:2] == [0, 3], "given 0 all of its kind are known, up to their own noise"


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), dim=st.integers(1, 6), noise=st.sampled_from([0.05, 0.3, 2.0]))
def test_the_choice_is_that_of_the_covariance_written_out(seed, dim, noise):
    g = np.random.default_rng(seed)
    points, shares, worth = g.standard_normal((dim, 12)), g.dirichlet(np.ones(12)), 1 - 0.5 * g.random(12)
    covariance, free = points.T @ points + noise**2 * np.eye(12), set(range(2, 12))
    for chosen in telling(points, noise, shares, worth, np.arange(2, 12), 10)[0].tolist():
        gain = {k: worth[k] * (shares @ covariance[:, k]) / np.sqrt(covariance[k, k]) for k in free}
        assert gain[chosen] == pytest.approx(max(gain.values()), abs=1e-9)
        free.remove(chosen)
        column = covariance[:, chosen]
        covariance = covariance - np.outer(column, column) / column[chosen]


def test_chosen_clients_are_put_back_by_beta(view, g):
    state = {"changes": np.ones((1, 4), np.float32), "loss": np.zeros(4), "asked": 0, "picked": np.array([0, 9, 9, 0])}
    assert SHORT.select(state, view(4, round=4), g).clients[0] == 0
    assert FedCor(clients=1, warm_up=2, every=3).select(state, view(4, round=4), g).clients[0] in (0, 3)


# What is learnt.


def likelihood(points, changes, weights, noise):
    """Weighted log likelihood, by the density written out."""
    covariance = points.T @ points + noise**2 * np.eye(changes.shape[1])
    return float(weights @ multivariate_normal(cov=covariance).logpdf(changes))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), dim=st.integers(1, 3), gamma=st.sampled_from([0.7, 1.0]))
def test_no_embedding_near_by_is_likelier(seed, dim, gamma):
    g, noise = np.random.default_rng(seed), 0.2
    changes = (g.standard_normal((6, 3)) @ g.standard_normal((3, 5)) + 0.2 * g.standard_normal((6, 5))).astype("f4")
    weights = gamma ** np.arange(5, -1, -1.0)
    points = embedding(changes, gamma, dim, noise)
    best = likelihood(points, changes, weights, noise)
    for _ in range(30):
        step = 0.05 * g.standard_normal(points.shape)
        assert likelihood(points + step, changes, weights, noise) <= best + 1e-9


def test_clients_that_changed_together_are_near_each_other():
    g = np.random.default_rng(0)
    kinds = g.standard_normal((20, 2)).repeat(3, axis=1)
    points = embedding((kinds + 0.05 * g.standard_normal((20, 6))).astype("f4"), 0.9, 15, 0.01)
    directions = points / np.linalg.norm(points, axis=0)
    alike = directions.T @ directions
    assert alike[:3, :3].min() > 0.95
    assert alike[3:, 3:].min() > 0.95
    assert abs(alike[:3, 3:]).max() < 0.7


def test_changes_are_those_of_uniform_rounds_scaled(view, outcome):
    state = played(SHORT, view, outcome, [(1, 1, 1, 1), (0, 1, 1, 0), (0, 0, 3, 0), None, (1, 1, 1, 1), (2, 1, 1, 1)])
    expected = np.array([(-1, 0, 0, -1), (0, -1, 2, 0), (1, 0, 0, 0)], np.float32)
    expected /= np.sqrt((expected**2).mean(1, keepdims=True))
    np.testing.assert_allclose(state["changes"], expected, rtol=1e-6)
    assert state["asked"] == 6
    assert state["picked"].tolist() == [0, 0, 0, 0]


def test_a_change_that_is_not_known_is_the_mean_of_the_others(view, outcome):
    state = played(SHORT, view, outcome, [(1, 1, None, 1), (0, 1, 5, 0.5)])
    expected = np.array([-1, 0, -0.5, -0.5])
    np.testing.assert_allclose(state["changes"][0], expected / np.sqrt((expected**2).mean()), rtol=1e-6)


def test_rounds_that_were_not_asked_about_or_changed_nothing_teach_nothing(view, outcome):
    assert len(played(SHORT, view, outcome, [(1, 1, 1, 1), None, (2, 1, 1, 1)])["changes"]) == 0
    assert len(played(SHORT, view, outcome, [(1, 1, 1, 1), (1, 1, 1, 1)])["changes"]) == 0


def test_old_changes_are_forgotten(view, outcome):
    selector = FedCor(clients=2, warm_up=9, history=2)
    state = played(selector, view, outcome, [(1, 1, 1, k % 2) for k in range(5)])
    assert state["changes"][:, 3].tolist() == [2, -2]


# Who is asked.


def test_all_are_asked_before_and_after_uniform_rounds(view, outcome, g):
    state, asked = SHORT.init(view(4)), []
    for round in range(1, 10):
        probe = SHORT.probe(state, view(4, round=round, available=[True, True, False, True]), g)
        asked.append(probe is not None)
        if probe:
            assert (probe.clients, probe.kind) == ((0, 1, 3), "loss")
        seen = view(4, round=round, probed=answers(1, round, 1, 1) if probe else {})
        state = SHORT.update(state, seen, outcome((0,)))
    assert asked == [True, True, True, False, True, True, False, True, True]


def test_nobody_is_asked_where_a_cohort_could_not_be_paid_for_then(view, g):
    state = SHORT.init(view(4))
    assert SHORT.probe(state, view(4, bytes_left=4 * 60 + 2 * 100), g) is not None
    assert SHORT.probe(state, view(4, bytes_left=4 * 60 + 2 * 100 - 1), g) is None
    assert len(SHORT.select(state, view(4, bytes_left=399), g).clients) == 2


def test_cohorts_are_uniform_in_the_warm_up_and_greedy_between(view, g):
    state = {"changes": np.eye(6, dtype=np.float32)[:1] + 0.1, "loss": np.zeros(6), "asked": 0, "picked": np.zeros(6)}
    drawn = {SHORT.select(state, view(6, round=5), np.random.default_rng(seed)).clients for seed in range(30)}
    assert len(drawn) > 5
    chosen = {SHORT.select(state, view(6, round=4), np.random.default_rng(seed)).clients for seed in range(30)}
    assert all(0 in cohort for cohort in chosen)


@pytest.mark.slow
def test_short_options_keep_the_laws():
    check_selector(FedCor, warm_up=2, every=3, dim=2, history=4)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("dim", 0),
        ("noise", 0.0),
        ("beta", 0.0),
        ("warm_up", 0),
        ("every", 1),
        ("gamma", 1.1),
        ("history", 0),
        ("clients", -1),
    ],
)
def test_impossible_options_are_refused(option, value):
    with pytest.raises(InputError, match=rf"^FedCor\.{option} must be"):
        FedCor(**{option: value})


def test_more_clients_than_there_are_are_refused(view):
    with pytest.raises(InputError, match=r"FedCor\.clients must be in \[0, 4\]"):
        FedCor(clients=5).init(view(4))
