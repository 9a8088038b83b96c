"""Noise on sums: as little as keeps a claim, in steps of which no sum loses one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.contracts import randomness
from fedgraft.engine.privacy.mechanism import Mechanism, mechanism_of
from fedgraft.engine.privacy.options import Privacy
from fedgraft.engine.privacy.private_sums import PrivateSums, private_sums
from fedgraft.errors import InputError
from fedgraft.secrets.keystream import Keystream
from fedgraft.wire.layouts import VARIABLE, Layout, Spec

NODE = Privacy(unit="node", epsilon=4.0, delta=1e-5, clip=2.0, shares=9)
CLIENT = replace(NODE, unit="client")
LAYOUT = Layout((Spec("w", "float32", (20, 50)), Spec("b", "float32", (50,))))
NUMBERS = 1050


def secret(number):
    return Keystream(bytes([number]) * 32)


def coded(sums, arrays, number):
    return sums.coded(arrays, sums.first(1.0), randomness.lazy(1, "uplink"), secret=secret(number))


def of_length(length, seed=1):
    g = np.random.default_rng(seed)
    drawn = {"w": g.normal(size=(20, 50)), "b": g.normal(size=50)}
    norm = np.sqrt(sum(np.square(each).sum() for each in drawn.values()))
    return {name: each * (length / norm) for name, each in drawn.items()}


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["node", "client"]),
    st.floats(0.3, 10),
    st.sampled_from([1e-4, 1e-6]),
    st.integers(1, 200),
    st.integers(1, 5000),
    st.integers(1, 300),
)
def test_a_claim_holds_and_is_tight(unit, epsilon, delta, rounds, numbers, shares):
    privacy = Privacy(unit=unit, epsilon=epsilon, delta=delta, clip=1.0, shares=shares)
    made = mechanism_of(privacy, rounds, numbers)
    assert 0.98 * epsilon < made.epsilon <= epsilon
    assert made.released.rounds == rounds
    assert made.released.failure * rounds == pytest.approx(1e-4 * delta if unit == "node" else 0.0)


def test_rounding_costs_about_a_hundredth():
    made = mechanism_of(NODE, 30, NUMBERS)
    assert 1.0 < made.length * made.step / NODE.clip < 1.06
    known = (NODE.shares / made.hidden) ** 0.5  # a client knows its own share, which is of no use against it
    assert made.noise_norm / (made.released.noise * NODE.clip * NUMBERS**0.5) == pytest.approx(1.03 * known, abs=0.03)
    assert made.least_units == int(np.ceil(made.noise_norm / NODE.clip))


@pytest.mark.parametrize("privacy", [NODE, CLIENT])
def test_a_sum_is_that_of_the_arrays_with_just_the_noise_that_is_claimed(privacy):
    made, sums = mechanism_of(privacy, 3, NUMBERS), private_sums(privacy, 3, LAYOUT)
    sent = [of_length(1.5, seed) for seed in range(9)]
    total = np.sum([coded(sums, each, number) for number, each in enumerate(sent)], axis=0)
    mean = sums.mean(total, 9, sums.first(1.0))
    for name in ("w", "b"):
        assert mean[name].shape == sent[0][name].shape
    exact = np.mean([np.concatenate([each["w"].ravel(), each["b"]]) for each in sent], axis=0)
    noise = (np.concatenate([mean["w"].ravel(), mean["b"]]) - exact) * 9 / made.step
    deviation = float(9 * made.variance) ** 0.5
    assert noise.std() == pytest.approx(deviation, rel=0.1)
    assert abs(noise.mean()) < 4 * deviation / NUMBERS**0.5


@pytest.mark.parametrize("privacy", [NODE, CLIENT])
def test_sums_wrap_around_nowhere_and_may_be_negative(privacy):
    """All clients' parts are as long as they may be, in one number."""
    sums = private_sums(privacy, 3, LAYOUT)
    units = 40
    bits = sums.sum_bits(units)
    alone = {"w": np.zeros((20, 50)), "b": np.full(50, 0.0)}
    alone["b"][0] = -privacy.clip * (units / 9 if privacy.of_examples else 1)
    count = 9 if privacy.of_examples else units
    added = [coded(sums, alone, number) for number in range(count)]
    total = np.sum(added, axis=0)
    wrapped = total & (2**bits - 1)
    assert (wrapped - (wrapped >> (bits - 1) << bits) == total).all()
    assert total[1000] < 0
    assert sums.sum_bits(2 * units) > bits


def test_the_same_secret_draws_the_same_noise_and_another_one_other():
    sums = private_sums(NODE, 3, LAYOUT)
    arrays = of_length(1.0)
    one, again, other = (coded(sums, arrays, number) for number in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).mean() > 0.9


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e30])
def test_what_holds_no_numbers_is_hidden_as_any_other(wrong):
    """An error would tell for nothing that the data have led to one."""
    arrays = of_length(1.0)
    arrays["b"][3] = wrong
    assert len(coded(private_sums(NODE, 3, LAYOUT), arrays, 1)) == NUMBERS


def test_what_cannot_be_added_up_is_refused():
    with pytest.raises(InputError, match="length of a vector to be rounded"):
        coded(private_sums(CLIENT, 3, LAYOUT), of_length(2.1), 1)
    for spec in (Spec("n", "int32", (2,)), Spec("n", "float32", (VARIABLE,))):
        with pytest.raises(InputError, match="noise cannot be added to 'n'"):
            PrivateSums(mechanism_of(NODE, 3, 2), Layout((spec,)))
    with pytest.raises(InputError, match=r"privacy\.shares must say"):
        private_sums(replace(NODE, shares=0), 3, LAYOUT)


def test_a_mechanism_with_less_noise_claims_more():
    made = mechanism_of(NODE, 30, NUMBERS)
    less = Mechanism(NODE, 30, NUMBERS, made.target * 0.9)
    assert less.epsilon > NODE.epsilon * 1.05


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"epsilon": 0.0}, r"privacy\.epsilon must be > 0 and finite; got 0"),
        ({"delta": 0.0}, r"privacy\.delta must be in \(0, 1\), below 1 / units; got 0"),
        ({"delta": 1.0}, r"privacy\.delta must be in"),
        ({"clip": 0.0}, r"privacy\.clip must be > 0 and finite; got 0"),
        ({"shares": -1}, r"privacy\.shares must be a whole number >= 0; got -1"),
        ({"unit": ""}, r"privacy\.epsilon must be 0 unless privacy\.unit says whose privacy it is; got 4"),
    ],
)
def test_options_that_claim_nothing_are_refused(options, error):
    with pytest.raises(InputError, match=error):
        replace(NODE, **options)


def test_a_delta_that_pays_for_a_whole_unit_is_refused():
    NODE.check_units(99_999)
    with pytest.raises(InputError, match=r"privacy\.delta must be below 1 / 100000, the number of units"):
        NODE.check_units(100_000)
    Privacy().check_units(10**9)
