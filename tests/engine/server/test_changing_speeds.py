"""Devices whose speed changes: by hand, and its laws."""

import numpy as np
import pytest

from fedgraft.contracts import randomness
from fedgraft.engine.server.clock import ChangingSpeeds, Clock
from fedgraft.errors import InputError
from helpers.toy_runs import run, same, toy

ROUNDS = range(1, 60)


def test_factors_by_hand():
    """Stays of two rounds: rounds 1 and 2 are as known, 3 and 4 have the second draw, 5 and 6 the third."""
    changing = ChangingSpeeds(seed=7, jitter=0.0, switch=0.5, switch_rounds=(2, 2))
    assert changing.factors(3, 1).tolist() == changing.factors(3, 2).tolist() == [1.0, 1.0, 1.0]
    for stay, rounds in ((1, (3, 4)), (2, (5, 6))):
        g = randomness.generator(7, "stay", stay)
        g.integers(2, 3, 3)  # how long they stay
        drawn = np.exp(0.5 * g.standard_normal(3))
        for each in rounds:
            np.testing.assert_array_equal(changing.factors(3, each), drawn)


def test_stays_last_as_long_as_they_may_for_each_client_by_itself():
    factors = np.array([ChangingSpeeds(1, 0.0, 1.0, (5, 10)).factors(40, each) for each in ROUNDS])
    changes = [np.flatnonzero(np.diff(column)) for column in factors.T]
    assert {int(length) for each in changes for length in np.diff(each)} == {5, 6, 7, 8, 9, 10}
    assert {int(each[0]) + 1 for each in changes} == {5, 6, 7, 8, 9, 10}, "the first stay, too"


def test_noise_is_drawn_in_every_round_about_1():
    logs = np.log([ChangingSpeeds(1, 0.3, 0.0, (5, 10)).factors(400, each) for each in ROUNDS])
    assert np.mean(logs) == pytest.approx(0.0, abs=0.01)
    assert np.std(logs) == pytest.approx(0.3, abs=0.01)
    assert abs(np.corrcoef(logs[0], logs[1])[0, 1]) < 0.2


def test_a_round_has_its_factors_whichever_was_asked_for_before():
    changing = Clock(jitter=0.2, switch=1.0).of(5, seed=3)
    late = changing.at(30).examples_per_second
    assert not np.array_equal(changing.at(1).examples_per_second, late)
    np.testing.assert_array_equal(changing.at(30).examples_per_second, late)
    np.testing.assert_array_equal(changing.down, changing.at(30).down)  # links stay


def test_without_either_devices_stay_as_they_are():
    steady = Clock().of(5, seed=3)
    assert steady.at(9) is steady
    known = Clock(jitter=0.2, switch=1.0).of(5, seed=3)
    np.testing.assert_array_equal(known.examples_per_second, steady.examples_per_second)


def test_a_run_takes_other_seconds_and_trains_the_same_model():
    steady, changing = toy(), toy(clock={"jitter": 0.5, "switch": 1.0, "switch_rounds": [1, 2]})
    one, other = run(steady)[0], run(changing)[0]
    assert same(one.sharing, other.sharing)
    assert one.simulated_seconds != other.simulated_seconds


@pytest.mark.parametrize("rounds", [(5,), (0, 3), (6, 5)])
def test_impossible_stays_are_refused(rounds):
    with pytest.raises(InputError, match=r"clock\.switch_rounds must be two whole numbers, 1 <= least <= most; got"):
        Clock(switch_rounds=rounds)
    with pytest.raises(InputError, match=r"clock\.switch must be in \[0, 10\]; got -1"):
        Clock(switch=-1.0)
