"""What a trusted server releases of a round: clipped updates added up, noise, and a length that follows them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from fedgraft.engine.privacy.central import central_mechanism
from fedgraft.engine.privacy.options import Privacy
from fedgraft.engine.server.beginning import ServerSecret
from fedgraft.engine.server.sums import noised_replies
from fedgraft.engine.server.sums.noised_replies import CentralNoise

COHORT = 40.0


def made(root=b"", **changes):
    privacy = Privacy(name="central", unit="client", **{"epsilon": 4.0, "delta": 1e-5, "clip": 2.0, **changes})
    return CentralNoise(central_mechanism(privacy, 50, 8, 0.1, COHORT), ServerSecret(1, root))


def released(noise, updates, round=1, length=2.0):
    """The mean of updates of clients 0, 1, ... with noise, and the next length."""
    return noise.mean(dict(enumerate(updates)), round, length)


def unit(place, length=1.0):
    return length * np.eye(8)[place]


@pytest.fixture
def silent(monkeypatch):
    """The mutant: no noise."""
    monkeypatch.setattr(noised_replies, "discrete_gaussian", lambda variance, count, source: np.zeros(count, np.int64))


def test_without_noise_it_is_the_sum_of_clipped_updates_over_the_expected_cohort(silent):
    """Of lengths 10 and 1 the first is cut to 2; two clients are divided by forty, rounded to steps of C / 14."""
    noise = made()
    step = noise._mechanism.of_sum.step * 2.0
    assert step == pytest.approx(2.0 * 0.2 / math.sqrt(8))
    total, _ = released(noise, [unit(0, 10.0), unit(1, -1.0)])
    assert total * COHORT == pytest.approx([2.0, -1.0, 0, 0, 0, 0, 0, 0], abs=step)
    none, _ = released(noise, [])
    assert none.tolist() == [0.0] * 8, "a round of nobody"


def test_on_average_rounding_and_noise_add_nothing():
    noise, update = made(), np.array([0.5, -0.3, 0.2, 0.1, 0, 0, 0.7, -0.9])
    found = np.mean([released(noise, [update], round)[0] for round in range(3000)], axis=0) * COHORT
    sigma = noise._mechanism.of_sum.released.noise * 2.0 * 1.05
    assert np.abs(found - update).max() < 4.5 * sigma / math.sqrt(3000)


def spread(noise, updates=(), rounds=400):
    """How far released numbers vary, over how far the claim has them vary at least, squared; and the draws."""
    found = np.stack([released(noise, updates, round)[0] for round in range(rounds)]) * COHORT
    least = noise._mechanism.of_sum.target * noise._mechanism.of_sum.length * noise._mechanism.of_sum.step * 2.0
    return float(np.square(found).sum()) / least**2, found.size


@pytest.mark.parametrize("quantile", [0.0, 0.5])
def test_a_round_of_nobody_has_all_of_the_noise(quantile):
    square, draws = spread(made(target_quantile=0.0))
    assert chi2.ppf(1e-4, draws) < square < 1.1 * chi2.ppf(1 - 1e-4, draws)
    noise = made(target_quantile=quantile)
    assert noise._mechanism.released.noise >= 0.99 * made()._mechanism.released.noise


def test_the_mutant_without_noise_and_one_with_half_of_it_are_caught(silent, monkeypatch):
    square, draws = spread(made())
    assert square < chi2.ppf(1e-4, draws)
    monkeypatch.undo()
    exact = noised_replies.discrete_gaussian
    monkeypatch.setattr(noised_replies, "discrete_gaussian", lambda variance, *rest: exact(variance / 4, *rest))
    square, draws = spread(made())
    assert square < chi2.ppf(1e-4, draws)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=8, max_size=8), st.integers(1, 9))
def test_no_client_moves_a_sum_by_more_than_the_claim_counts(update, round):
    noise = made()
    numbers = np.float64(update) / 2.0
    steps = noise.steps(noised_replies.shortened(numbers)[0], round, 3)
    assert np.linalg.norm(steps) <= noise._mechanism.of_sum.length * (1 + 1e-12)


def test_equal_rounds_have_equal_bits_and_others_have_other_noise():
    one, other = [unit(0), unit(1)], [unit(0), unit(2)]
    first, _ = released(made(), one)
    assert released(made(), one)[0].tobytes() == first.tobytes()
    assert released(made(b"k" * 32), one)[0].tobytes() != first.tobytes(), "of another secret"
    again, _ = released(made(), one, round=2)
    changed, _ = released(made(), other)
    for noisy in (again, changed):
        assert np.abs(noisy - first).min() > 0, "no number has the same noise"


def test_a_length_follows_how_many_are_shorter(silent):
    """Thirty of forty are shorter than 2: ln C falls by 0.2 (0.75 - 0.5) = 0.05; who did not come counts half."""
    noise = made(target_quantile=0.5)
    few, many = [unit(0, 9.0)] * 10, [unit(1, 0.5)] * 30
    _, length = released(noise, [*few, *many])
    assert length == pytest.approx(2.0 * math.exp(-0.05))
    _, length = released(noise, many, 2, length)
    assert length == pytest.approx(2.0 * math.exp(-0.05 - 0.2 * (0.5 + 15 / 40 - 0.5)))
    total, _ = released(noise, [unit(0, 9.0)], 3, length)
    assert total[0] * COHORT == pytest.approx(length, abs=0.2 * length)
    assert released(made(), many)[1] == 2.0, "a fixed length"


def test_the_count_holds_noise_too():
    noise = made(target_quantile=0.5)
    moves = [math.log(released(noise, [], round)[1] / 2.0) for round in range(400)]
    sigma_b = COHORT / 20
    assert np.std(moves) == pytest.approx(0.2 * sigma_b / COHORT, rel=0.15)
    assert abs(np.mean(moves)) < 4 * 0.01 / math.sqrt(400)
