"""One epsilon: that of dp-accounting, monotone, and never below what is known exactly."""

import json
import math
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.errors import InputError
from fedgraft.secrets.accountant import Answered, Released, epsilon_of, noise_for
from fedgraft.secrets.gaussian import gaussian_epsilon, gaussian_noise
from fedgraft.secrets.noise_shares import divergence, noise_multiplier, share_variance
from fedgraft.secrets.rounding import sensitivity

TABLE = Path(__file__).with_name("accountant_values.json")


@cache
def table():
    """What dp-accounting says: benchmarks/accountant_values.py."""
    return json.loads(TABLE.read_text(encoding="utf-8"))["rows"]


def parts_of(row):
    released = [Released(noise, rounds, share) for noise, rounds, share in row["released"]]
    return [*released, *(Answered(epsilon, times) for epsilon, times in row["answered"])]


@pytest.mark.parametrize("delta", [1e-5, 1e-8])
@pytest.mark.parametrize("noise", [0.7, 1.0, 2.0, 5.0, "mixed"])
def test_equal_to_dp_accounting(noise, delta):
    rows = [row for row in table() if row["delta"] == delta and noise == _kind(row)]
    assert len(rows) == (4 if noise == "mixed" else 12)
    for row in rows:
        assert epsilon_of(parts_of(row), delta) == pytest.approx(row["epsilon"], rel=1e-3), row


def _kind(row):
    single = len(row["released"]) == 1 and not row["answered"]
    return row["released"][0][0] if single else "mixed"


@settings(max_examples=25)
@given(st.floats(0.3, 20), st.integers(1, 3_000), st.floats(-12, -1))
def test_never_below_the_closed_form_where_all_take_part(noise, rounds, power):
    truth = gaussian_epsilon(noise / math.sqrt(rounds), 10**power)
    assert epsilon_of([Released(noise, rounds)], 10**power) == pytest.approx(truth, rel=1e-12)
    on_the_grid = epsilon_of([Released(noise, rounds, share=1 - 1e-12)], 10**power)
    assert truth * (1 - 1e-9) - 1e-9 <= on_the_grid <= truth * (1 + 1e-4) + 1e-4


BASE = {"noise": 1.0, "rounds": 200, "share": 0.05}


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("noise", (3.0, 2.0, 1.01, 1.0, 0.6)),
        ("rounds", (1, 2, 199, 200, 900)),
        ("share", (1e-4, 0.049, 0.05, 0.7, 1.0)),
    ],
)
def test_monotone_in_noise_rounds_and_share(option, values):
    found = [epsilon_of([Released(**{**BASE, option: value})], 1e-6) for value in values]
    assert found == sorted(found)
    assert len(set(found)) == len(found)


def test_monotone_in_delta_and_in_parts():
    parts = [Released(**BASE), Answered(0.5)]
    found = [epsilon_of(parts, delta) for delta in (0.1, 1e-3, 1.01e-5, 1e-5, 1e-9)]
    assert found == sorted(found)
    assert epsilon_of(parts[:1], 1e-5) < found[3]
    assert epsilon_of([*parts, Released(50.0)], 1e-5) > found[3]


def test_the_figures_of_ten_of_a_hundred_clients():
    assert epsilon_of([Released(1.0, 60, 0.1)], 1e-5) == pytest.approx(5.57, abs=0.005)
    assert epsilon_of([Released(1.0, 60)], 1e-5) == pytest.approx(62.24, abs=0.005)


def test_whole_rounds_of_several_kinds_are_one_gaussian():
    parts = [Released(3.0, 9), Released(4.0, 16)]
    assert epsilon_of(parts, 1e-5) == pytest.approx(gaussian_epsilon(1 / math.sqrt(2), 1e-5))


def test_pure_epsilons_add():
    parts = [Answered(0.5, 2), Answered(1.0)]
    assert epsilon_of(parts, 0) == 2.0
    assert 1.9 < epsilon_of(parts, 1e-5) <= 2.0
    assert epsilon_of([Answered(0.1, 400)], 1e-5) < 12
    assert epsilon_of([], 1e-5) == 0


def test_order_says_nothing():
    parts = [Released(1.0, 60, 0.1), Answered(1.0, 3), Released(20.0, 10)]
    assert epsilon_of(parts, 1e-5) == pytest.approx(epsilon_of(parts[::-1], 1e-5), rel=1e-12)


def test_divergence_and_failure_are_counted():
    plain = epsilon_of([Released(4.0, 10)], 1e-5 * (1 - 10 * 1e-8 / 1e-5) * math.exp(-0.1))
    assert epsilon_of([Released(4.0, 10, divergence=0.01, failure=1e-8)], 1e-5) == pytest.approx(plain + 0.2)
    assert epsilon_of([Released(4.0, 10, failure=2e-6)], 1e-5) == math.inf
    assert epsilon_of([Answered(1.0, 3, delta=1e-5)], 1e-5) == math.inf
    assert 1 < epsilon_of([Answered(1.0, delta=1e-6)], 1e-5) + 1e-4 <= 1.0002


def test_an_answer_and_a_sum_cost_less_than_both_alone():
    answer, rounds = Answered(1.0), Released(4.0)
    both = epsilon_of([answer, rounds], 1e-5)
    assert max(1.0, epsilon_of([rounds], 1e-5)) < both < 1.0 + epsilon_of([rounds], 1e-5)


@pytest.mark.parametrize(
    ("rounds", "share", "also"),
    [(60, 1.0, ()), (60, 0.1, ()), (1, 0.5, ()), (30, 1.0, (Answered(0.5),)), (100, 0.02, (Released(9.0, 4),))],
)
def test_noise_for_an_epsilon_keeps_it(rounds, share, also):
    noise = noise_for(2.0, 1e-5, rounds, share, also)
    assert epsilon_of([Released(noise, rounds, share), *also], 1e-5) <= 2.0 * (1 + 1e-12)
    assert epsilon_of([Released(noise * (1 - 2e-4), rounds, share), *also], 1e-5) > 2.0


def test_noise_of_whole_rounds_grows_with_their_root():
    assert noise_for(1.0, 1e-5, rounds=100) == pytest.approx(10 * gaussian_noise(1.0, 1e-5))


def test_noise_where_delta_pays_for_any():
    assert noise_for(1.0, 0.05, share=0.01) == pytest.approx(0.1)


def test_a_masked_sum_from_the_claim_to_the_shares_and_back():
    """A hundred clients, of whom eighty are sure to add noise: the claim is kept, and hardly undercut."""
    rounds, dimension, step, failure = 60, 1_503, 0.005, 1e-10
    moved = sensitivity(1.0, step, dimension, failure) / step
    noise = noise_for(2.0, 1e-5 - rounds * failure, rounds)
    variance = share_variance(noise, 80, moved)
    told = Released(
        noise_multiplier(variance, 80, moved),
        rounds,
        divergence=divergence(variance, 80, dimension),
        failure=failure,
    )
    assert 1.999 < epsilon_of([told], 1e-5) <= 2.0 + 1e-9


def test_errors_say_what_is_allowed():
    with pytest.raises(InputError, match=r"Released\.noise must be > 0 and finite; got 0\."):
        Released(0)
    with pytest.raises(InputError, match=r"Released\.share must be in \(0, 1\]; got 1\.5\."):
        Released(1.0, share=1.5)
    with pytest.raises(InputError, match=r"Answered\.epsilon must be > 0 and finite; got nan\."):
        Answered(math.nan)
    with pytest.raises(InputError, match=r"delta must be > 0 where noise is Gaussian or a part has a delta"):
        epsilon_of([Released(1.0)], 0)
    with pytest.raises(InputError, match=r"delta must be in \[0, 1\); got 1\."):
        epsilon_of([], 1)
    with pytest.raises(
        InputError, match=r"epsilon must be above 2\.99999, which the other parts take at delta 1e-05; got 2\."
    ):
        noise_for(2, 1e-5, also=[Answered(3.0)])
