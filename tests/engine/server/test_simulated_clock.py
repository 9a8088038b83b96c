import numpy as np
import pytest

from fedgraft.engine.server.simulated_clock import Clock
from fedgraft.errors import InputError


def test_seconds_of_a_worked_example():
    # 8 Mbit/s are a million bytes a second: 0.5 s latency + 2 s on the line + 3 s of training.
    devices = Clock(mbit_per_second=8.0, examples_per_second=100.0, latency_seconds=0.5, spread=0.0).devices(2, seed=1)
    assert devices.seconds(1, 2_000_000, 300) == pytest.approx(5.5)
    assert devices.seconds(0, 0, 0) == 0.5
    assert devices.seconds(0, 0, 0, waits=3) == 2.0
    assert devices.all_seconds(1_000_000, 100, waits=1).tolist() == pytest.approx([3.0, 3.0])


def test_without_spread_all_clients_are_equal():
    devices = Clock(spread=0.0).devices(5, seed=1)
    assert np.all(devices.bytes_per_second == 1_250_000)
    assert np.all(devices.examples_per_second == 100_000)


def test_devices_depend_on_the_seed_alone():
    one, again, other = (Clock().devices(50, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.bytes_per_second, again.bytes_per_second)
    assert not np.array_equal(one.bytes_per_second, other.bytes_per_second)
    assert not np.allclose(np.log(one.bytes_per_second / 1.25e6), np.log(one.examples_per_second / 1e5))


def test_spread_is_the_deviation_of_the_log_about_the_median():
    logs = np.log(Clock(mbit_per_second=8.0, spread=0.5).devices(20_000, 1).bytes_per_second / 1e6)
    assert np.median(logs) == pytest.approx(0.0, abs=0.02)
    assert np.std(logs) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("mbit_per_second", 0),
        ("examples_per_second", -1),
        ("latency_seconds", -0.1),
        ("spread", float("nan")),
        ("spread", 11),
    ],
)
def test_impossible_clocks_are_refused(option, value):
    with pytest.raises(InputError, match=rf"^clock\.{option} must be"):
        Clock(**{option: value})
