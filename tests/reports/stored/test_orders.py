"""What became of orders: by hand for every fate, and from runs with late answers."""

from itertools import pairwise

import pandas as pd
import pytest

from fedgraft.experiment import job as jobs
from fedgraft.experiment.running.runner import execute
from fedgraft.reports.stored.orders import COMMUNICATION, TRAINING, UNHEARD, WAITING, orders, seconds_by_state
from fedgraft.reports.stored.stored_runs import StoredRun
from helpers.fake_runs import write_run
from helpers.tiny import TINY

SPEEDS = [100_000.0, 10_000.0, 300.0]
"""Training examples per second of three clients: the last is late."""
DEVICES = [{"examples_per_second": speed, "mbit_down": 10.0, "mbit_up": 10.0} for speed in SPEEDS]


def rounds_of(*rows):
    """Rows of rounds, numbered from 1, with what is not given as it is where nothing happens."""
    usual = {"selected": (), "failed": {}, "timings": {}, "late": (), "staleness": {}, "began": 0.0}
    return pd.DataFrame([{**usual, "round": number, **row} for number, row in enumerate(rows, 1)])


def test_a_client_in_time_waits_for_the_slowest():
    rounds = rounds_of({"selected": (0, 1), "timings": {0: (2.0, 1.0), 1: (5.0, 4.0)}, "simulated_seconds": 9.0})
    quick, slow = orders(rounds)
    assert quick.spans() == [(TRAINING, 0.0, 2.0), (COMMUNICATION, 2.0, 1.0), (WAITING, 3.0, 6.0)]
    assert slow.spans()[-1] == (WAITING, 9.0, 0.0)
    assert not quick.late
    assert not quick.lost


def test_a_late_answer_belongs_to_the_round_that_ordered_it_and_waits_to_be_merged():
    rounds = rounds_of(
        {"selected": (0, 1), "timings": {0: (2.0, 1.0)}, "late": (1,), "simulated_seconds": 4.0},
        {"selected": (0,), "timings": {0: (2.0, 1.0), 1: (5.0, 1.5)}, "staleness": {1: 1}, "simulated_seconds": 8.0},
    )
    late = next(order for order in orders(rounds) if order.client == 1)
    assert (late.round, late.began, late.round_end, late.stopped, late.freed) == (1, 0.0, 4.0, 6.5, 8.0)
    assert late.spans() == [(TRAINING, 0.0, 5.0), (COMMUNICATION, 5.0, 1.5), (WAITING, 6.5, 1.5)]
    assert late.late
    assert not late.lost


def test_a_dropped_answer_is_lost_when_its_round_ends_and_one_too_stale_when_it_arrives():
    rounds = rounds_of(
        {"late": (0, 1), "failed": {0: "late: 9 seconds"}, "simulated_seconds": 4.0},
        {"timings": {1: (5.0, 1.5)}, "staleness": {1: 1}, "failed": {1: "late: too old"}, "simulated_seconds": 8.0},
    )
    dropped, stale = orders(rounds)
    assert dropped.spans() == [(UNHEARD, 0.0, 4.0)]
    assert stale.spans() == [(TRAINING, 0.0, 5.0), (COMMUNICATION, 5.0, 1.5)]
    assert dropped.late
    assert dropped.lost
    assert stale.lost


def test_an_answer_on_its_way_when_the_run_ends_is_late_and_not_lost():
    (order,) = orders(rounds_of({"late": (0,), "simulated_seconds": 4.0}, {"simulated_seconds": 7.0}))
    assert order.spans() == [(UNHEARD, 0.0, 7.0)]
    assert order.late
    assert not order.lost


def test_who_fails_waits_for_nobody_and_nobody_for_who_fails_late():
    failed = {0: "gone", 1: "gone"}
    timings = {0: (1.0, 0.5), 1: (3.0, 4.0), 2: (1.0, 1.0)}
    rounds = rounds_of({"timings": timings, "late": (1,), "failed": failed, "simulated_seconds": 5.0})
    early, late, _ = orders(rounds)
    assert early.spans() == [(TRAINING, 0.0, 1.0), (COMMUNICATION, 1.0, 0.5)]
    assert late.spans() == [(TRAINING, 0.0, 3.0), (COMMUNICATION, 3.0, 2.0)]
    assert early.lost
    assert late.lost


@pytest.mark.parametrize("what", ["probe: gone", "scoring: gone"])
def test_a_failure_to_do_anything_else_loses_no_answer(what):
    (order,) = orders(rounds_of({"timings": {0: (1.0, 1.0)}, "failed": {0: what}, "simulated_seconds": 2.0}))
    assert not order.lost


def test_orders_follow_a_probe():
    row = {"timings": {0: (1.0, 1.0)}, "simulated_seconds": 2.0}
    probed = {**row, "simulated_seconds": 5.0, "began": 3.0}
    assert [order.began for order in orders(rounds_of(row, probed))] == [0.0, 3.0]


def run_with(folder, **changes):
    """A finished run of three clients, of whom one is slow."""
    given = {**TINY, "rounds": 6, "clock.devices": DEVICES, "selector.name": "all"}
    execute(jobs.load("fedacs", {**given, **{key.replace("__", "."): each for key, each in changes.items()}}), folder)
    return StoredRun(folder)


@pytest.mark.parametrize("late", ["wait", "drop", "semi_asynchronous"])
def test_orders_of_a_run_lie_on_its_clock(tmp_path, late):
    run = run_with(tmp_path / "run", clock__late=late)
    made = orders(run.rounds)
    assert len(made) == run.summary["selections"]
    assert {order.client for order in made if order.late} == (set() if late == "wait" else {2})
    for number, end in zip(run.rounds["round"], run.rounds["simulated_seconds"], strict=True):
        stops = [order.stopped for order in made if order.round == number and not order.late]
        assert all(stop <= end * (1 + 1e-12) for stop in stops)
        if late == "wait":
            assert max(stops) == pytest.approx(end)
    busy = sorted((order for order in made if order.client == 2), key=lambda order: order.began)
    for before, after in pairwise(busy):
        assert before.freed <= after.began * (1 + 1e-12), "nobody works for two rounds at a time"


def test_a_probe_ends_before_orders_are_sent(tmp_path):
    options = {"selector": {"name": "power_of_choice", "clients": 1, "candidates": 3}}
    run = run_with(tmp_path / "run", **options)
    ends = run.rounds["simulated_seconds"].to_numpy()
    assert (run.rounds["began"].to_numpy()[1:] > ends[:-1]).all()
    for order in orders(run.rounds):
        assert order.stopped == pytest.approx(order.round_end)


def test_seconds_by_state_are_those_of_the_orders(tmp_path):
    run = run_with(tmp_path / "run", clock__late="semi_asynchronous")
    table = seconds_by_state(run)
    assert table.shape == (3, 4)
    for client, sums in table.iterrows():
        freed = [order.freed - order.began for order in orders(run.rounds) if order.client == client and not order.lost]
        lost = [order.stopped - order.began for order in orders(run.rounds) if order.client == client and order.lost]
        assert sums.sum() == pytest.approx(sum(freed) + sum(lost))


def test_a_run_in_which_nobody_was_heard_of_has_no_orders(tmp_path):
    run = StoredRun(write_run(tmp_path / "a"))
    run.rounds["timings"] = [{}] * len(run.rounds)
    assert orders(run.rounds) == []
    assert seconds_by_state(run).to_numpy().sum() == 0
