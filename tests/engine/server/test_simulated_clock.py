import numpy as np
import pandas as pd
import pytest

from fedgraft.engine.server.clock import Clock
from fedgraft.errors import InputError

TWO = [
    {"examples_per_second": 100, "mbit_down": 8, "mbit_up": 4},
    {"examples_per_second": 50, "mbit_down": 8, "mbit_up": 8, "latency_seconds": 0.5, "availability": 0.25},
]


def test_seconds_of_a_worked_example():
    # 8 Mbit/s are a million bytes a second: 3 s of training; 0.5 s latency + 2 s on the line.
    devices = Clock(mbit_per_second=8.0, examples_per_second=100.0, latency_seconds=0.5, spread=0.0).of(2, seed=1)
    timing = devices.timing(1, 1_500_000, 500_000, 300)
    assert timing == pytest.approx((3.0, 2.5))
    assert timing.total == pytest.approx(5.5)
    assert devices.timing(0, 0, 0, 0).total == 0.5
    assert devices.timing(0, 0, 0, 0, waits=3).communication == 2.0
    assert devices.seconds(500_000, 500_000, 100, waits=1).tolist() == pytest.approx([3.0, 3.0])


def test_without_spread_all_clients_are_equal():
    devices = Clock(spread=0.0).of(5, seed=1)
    assert np.all(devices.down == 1_250_000)
    assert np.all(devices.up == 1_250_000)
    assert np.all(devices.examples_per_second == 100_000)


@pytest.mark.parametrize("profile", ["lognormal", "phones"])
def test_devices_depend_on_the_seed_alone(profile):
    one, again, other = (Clock(profile).of(50, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.down, again.down)
    assert not np.array_equal(one.down, other.down)


def test_links_and_speeds_are_drawn_apart():
    devices = Clock().of(50, 1)
    assert not np.allclose(np.log(devices.down / 1.25e6), np.log(devices.examples_per_second / 1e5))


def test_spread_is_the_deviation_of_the_log_about_the_median():
    logs = np.log(Clock(mbit_per_second=8.0, spread=0.5).of(20_000, 1).down / 1e6)
    assert np.median(logs) == pytest.approx(0.0, abs=0.02)
    assert np.std(logs) == pytest.approx(0.5, abs=0.02)


def test_the_paper_s_eight_devices():
    devices = Clock("edge_cloud").of(8, seed=1)
    assert (devices.down / 125_000).tolist() == [1600, 1600, 100, 100, 6, 6, 2, 2]
    assert np.array_equal(devices.down, devices.up)
    assert (devices.examples_per_second / devices.examples_per_second[-1]).tolist() == [4, 4, 4, 4, 1, 1, 1, 1]
    assert not devices.latency_seconds.any()


def test_the_paper_s_eight_devices_are_for_any_number_of_clients():
    links = {clients: (Clock("edge_cloud").of(clients, seed=1).down / 125_000).tolist() for clients in (1, 2, 4, 11)}
    assert links[1] == [1600]
    assert links[2] == [1600, 6], "fast and slow ones"
    assert links[4] == [1600, 100, 6, 2]
    assert links[11] == [1600, 1600, 100, 100, 6, 6, 2, 2, 1600, 1600, 100]


def test_own_devices_are_a_table_or_a_file(tmp_path):
    table = pd.DataFrame(TWO)
    table["availability"] = [1.0, 0.25]
    table["latency_seconds"] = [0.0, 0.5]
    table.to_csv(tmp_path / "devices.csv", index=False)
    from_file, from_table = Clock(str(tmp_path / "devices.csv")), Clock(TWO)
    assert from_file.devices == from_table.devices == Clock(table).devices, "what is read is kept with the run"
    devices = from_file.of(2, seed=1)
    assert devices.timing(0, 1_000_000, 1_000_000, 100) == pytest.approx((1.0, 3.0))
    assert devices.timing(1, 1_000_000, 1_000_000, 100) == pytest.approx((2.0, 2.5))


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"mbit_down": 0}, r"clock\.devices, row 2: mbit_down must be a number > 0; got 0\."),
        ({"mbit_up": -3}, r"clock\.devices, row 2: mbit_up must be a number > 0; got -3\."),
        ({"mbit_up": float("inf")}, r"row 2: mbit_up must be a number > 0"),
        ({"mbit_up": "fast"}, r"row 2: mbit_up must be a number > 0; got 'fast'"),
        ({"examples_per_second": 0}, r"row 2: examples_per_second must be a number > 0; got 0\."),
        ({"availability": 0}, r"row 2: availability must be a number in \(0, 1\]; got 0\."),
        ({"latency_seconds": -1}, r"row 2: latency_seconds must be a number >= 0; got -1\."),
        ({"mbit_upp": 3}, r"'mbit_upp'.*mbit_up"),
    ],
)
def test_impossible_devices_are_refused(changed, problem):
    with pytest.raises(InputError, match=problem):
        Clock([TWO[0], {**TWO[1], **changed}])


def test_tables_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"a device for each of the 3 clients; got a table of 2 devices"):
        Clock(TWO).of(3, seed=1)
    with pytest.raises(InputError, match="the column 'mbit_up' is missing"):
        Clock([{"examples_per_second": 1, "mbit_down": 1}])
    with pytest.raises(InputError, match="at least one device"):
        Clock([])
    with pytest.raises(InputError, match=r"edge-cloud.*Did you mean 'edge_cloud'"):
        Clock("edge-cloud")
    with pytest.raises(InputError, match=r"no file .*devices\.csv"):
        Clock(str(tmp_path / "devices.csv"))


def test_somebody_is_always_there():
    rows = [{**TWO[0], "availability": 0.3} for _ in range(4)]
    devices, wanted = Clock(rows).of(4, seed=1), np.array([True, True, True, False])
    there = np.array([devices.reachable(wanted, round, 7) for round in range(400)])
    assert there.any(1).all()
    assert not there[:, 3].any(), "only the wanted"
    expected = 0.3 / (1 - 0.7**3)  # given that somebody is
    assert there[:, :3].mean() == pytest.approx(expected, abs=0.05)
    assert not devices.reachable(np.zeros(4, bool), 1, 7).any()


def test_the_deadline_is_the_median_where_none_is_given():
    assert Clock().deadline(np.array([1.0, 9.0, 3.0])) == 3.0
    assert Clock(deadline_seconds=0.5).deadline(np.array([1.0, 9.0, 3.0])) == 0.5
    assert Clock().deadline(np.zeros(0)) == np.inf


def test_a_deadline_that_nobody_can_meet_names_the_fastest():
    least, clients = np.array([3.0, 2.5]), np.array([1, 4])
    for late in ("drop", "semi_asynchronous"):
        Clock(late=late, deadline_seconds=2.5).check(least, clients)
        with pytest.raises(
            InputError, match=r"at least 2\.5, the seconds of the fastest client \(client 4\); got 2\.4"
        ):
            Clock(late=late, deadline_seconds=2.4).check(least, clients)
    Clock(late="wait", deadline_seconds=2.4).check(least, clients)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("mbit_per_second", 0),
        ("examples_per_second", -1),
        ("latency_seconds", -0.1),
        ("spread", float("nan")),
        ("spread", 11),
        ("late", "later"),
        ("deadline_seconds", -1),
        ("max_staleness", 0),
    ],
)
def test_impossible_clocks_are_refused(option, value):
    with pytest.raises(InputError, match=rf"^clock\.{option} must be"):
        Clock(**{option: value})
