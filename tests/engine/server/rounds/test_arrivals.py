"""Late answers: waited for, dropped, or merged when they arrive."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.contracts import Selection, Timing, Update
from fedgraft.engine.server.clock import Clock
from fedgraft.engine.server.rounds.arrivals import Arrivals, ArrivedUpdates
from fedgraft.engine.server.rounds.collecting import TrainReplies
from fedgraft.engine.server.rounds.merging import Merging
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import InputError
from fedgraft.experiment.running.runner import execute
from fedgraft.methods.sharing.fedavg import FedAvg
from helpers.toy_runs import gone, looped, run, same, scripted, toy

# Five clients of 20, 40, 60, 20 and 40 training examples; messages take no time worth mentioning.
DEVICES = [{"examples_per_second": speed, "mbit_down": 1e6, "mbit_up": 1e6} for speed in (20, 20, 20, 2, 2)]
"""The rounds of the clients take 1, 2, 3, 10 and 20 seconds."""


def clock(late, deadline=3.5, **options):
    return {"devices": DEVICES, "late": late, "deadline_seconds": deadline, **options}


def trained(*clients):
    uploads = {client: {"w": np.full(1, client, np.float32)} for client in clients}
    return TrainReplies(uploads, {client: {"loss": float(client)} for client in clients})


def seconds(**by_client):
    return {int(client[1:]): Timing(total, 0.0) for client, total in by_client.items()}


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_updates_are_weighted_over_those_that_answered():
    merging = Merging(FedAvg())
    merging.open([4, 12, 0, 8])

    def found(selection, *answered):
        made = ArrivedUpdates(trained(*answered), merging.weights(selection))
        assert all(update.arrays is made.trained.uploads[update.client] for update in made.updates())
        return {update.client: update.weight for update in made.updates()}

    assert found(Selection((0, 1, 3)), 3, 0, 1) == {0: 4 / 24, 1: 12 / 24, 3: 8 / 24}
    assert list(found(Selection((0, 1, 3)), 3, 1)) == [1, 3], "ascending"
    assert found(Selection((0, 1, 3)), 3, 1) == {1: 0.6, 3: 0.4}
    assert found(Selection((0, 3), (1.0, 3.0)), 0, 3) == {0: 0.25, 3: 0.75}
    assert found(Selection((0, 3), (0.0, 3.0)), 0) == {}, "nobody's, where all weights are 0"
    assert found(Selection((0, 3))) == {}


def test_a_late_update_is_merged_when_it_arrives_with_less_weight():
    flying = []
    arrivals = Arrivals(Clock(late="semi_asynchronous"), flying)
    first, sent = arrivals.settle(trained(0, 1), {0: 30.0, 1: 30.0}, seconds(c0=1.0, c1=4.5), deadline=2.0)
    assert (first.seconds, first.late, list(first.trained.uploads)) == (2.0, (1,), [0])
    assert list(first.timings) == [0], "of a client at work nobody knows how long it will take"
    arrivals.send(sent, round=1, began=0.0)
    assert (arrivals.busy, arrivals.next_arrival) == ([1], 4.5)
    second, _ = arrivals.settle(trained(2), {2: 30.0}, seconds(c2=1.0), deadline=2.0)
    assert arrivals.receive(second, round=2, now=3.0) is second, "it is still on its way"
    third = arrivals.receive(second, round=3, now=5.0)
    assert third.staleness == {1: 2}
    assert [(update.client, update.staleness) for update in third.updates()] == [(1, 2), (2, 0)]
    assert [update.weight for update in third.updates()] == pytest.approx([10 / 40, 30 / 40]), "30 / (1 + 2) against 30"
    assert third.timings[1].total == 4.5
    assert (flying, arrivals.next_arrival) == ([], math.inf)


def test_where_all_updates_are_late_nobody_makes_up_for_what_they_lack():
    """Three and one examples, one and three rounds late: 3 / (1 + 1) and 1 / (1 + 3) of four."""
    late = ArrivedUpdates(trained(0, 1), {0: 3 / 2, 1: 1 / 4}, staleness={0: 1, 1: 3})
    assert [update.weight for update in late.updates()] == pytest.approx([1.5 / 4, 0.25 / 4])
    mixed = ArrivedUpdates(trained(0, 1), {0: 3.0, 1: 1 / 4}, staleness={1: 3})
    assert [update.weight for update in mixed.updates()] == pytest.approx([3 / 3.25, 0.25 / 3.25])
    equal = FedAvg(weights="equal")
    model = equal.init({"w": np.zeros(1, np.float32)}, 2)
    ones = [Update(client, 0.5, {"w": np.ones(1, np.float32)}, stale) for client, stale in ((0, 1), (1, 3))]
    assert equal.model(equal.merge(model, ones), 0)["w"] == pytest.approx((1 / 2 + 1 / 4) / 2)


def test_an_update_that_is_too_stale_is_dropped():
    arrivals = Arrivals(Clock(late="semi_asynchronous", max_staleness=1), [])
    _, sent = arrivals.settle(trained(0), {0: 1.0}, seconds(c0=9.0), deadline=2.0)
    arrivals.send(sent, round=1, began=0.0)
    found = arrivals.receive(ArrivedUpdates(TrainReplies()), round=3, now=9.0)
    assert found.trained.failed == {0: "late: its update is 2 rounds old, clock.max_staleness = 1"}
    assert (found.updates(), found.staleness, arrivals.busy) == ([], {0: 2}, [])


def test_nobody_waits_for_a_failed_client_beyond_the_deadline():
    arrivals = Arrivals(Clock(late="semi_asynchronous"), [])
    made = replace(trained(0), failed={1: "gone"})
    found, sent = arrivals.settle(made, {0: 1.0, 1: 1.0}, seconds(c0=1.0, c1=9.0), deadline=2.0)
    assert (found.seconds, found.late, sent) == (2.0, (1,), [])
    assert found.trained.failed == {1: "gone"}


# --- in runs ----------------------------------------------------------------------------------------------------------


def test_who_is_late_is_waited_for():
    _, rows, _ = run(toy(rounds=1, clock=clock("wait")))
    assert rows[0].simulated_seconds == pytest.approx(20.0, rel=1e-3)
    assert (rows[0].late, rows[0].failed) == ((), {})


def test_who_is_late_is_dropped():
    state, rows, _ = run(toy(rounds=2, clock=clock("drop")))
    assert [row.simulated_seconds for row in rows] == [3.5, 7.0]
    assert rows[0].late == (3, 4)
    assert rows[0].failed[3].startswith("late: 10 seconds, the round ended after 3.5")
    assert state.clients.failures["training"] == 0, "it did not fail"
    dropped, _, _ = run(toy(rounds=2, selector=scripted((0, 1, 2), (0, 1, 2))))
    assert same(state.sharing, dropped.sharing), "as if they had not been asked"


def test_who_is_late_trains_on_and_is_merged_when_it_arrives():
    state, rows, _ = run(toy(rounds=5, clock=clock("semi_asynchronous")))
    assert [row.selected for row in rows] == [(0, 1, 2, 3, 4), (0, 1, 2), (0, 1, 2), (0, 1, 2), (0, 1, 2, 3)]
    assert [row.late for row in rows] == [(3, 4), (), (), (), (3,)]
    assert [row.staleness for row in rows] == [{}, {}, {}, {3: 3}, {}]
    assert rows[3].failed == {3: "late: its update is 3 rounds old, clock.max_staleness = 2"}
    ends = [row.simulated_seconds for row in rows]
    assert ends == pytest.approx([3.5, 6.5, 9.5, 12.5, 16.0], rel=1e-3)
    assert [entry["client"] for entry in state.exchange.in_flight] == [4, 3]


def pair(slow, **options):
    """Two clients of 20 and 40 training examples; the rounds of the first take 1 second, of the second `slow`."""
    speeds = (20, 40 / slow)
    devices = [{**DEVICES[0], "examples_per_second": speed} for speed in speeds]
    timed = {"devices": devices, "late": "semi_asynchronous", "deadline_seconds": 1.5}
    return toy(data={"name": "helpers.toy:Lines", "clients": 2}, clock=timed, **options)


def test_a_stale_update_moves_the_model():
    cohorts = scripted((0, 1), (0,), (0,))
    _, early, _ = run(pair(3.0, rounds=3, selector=cohorts))
    _, never, _ = run(pair(9.0, rounds=3, selector=cohorts))
    assert [row.staleness for row in early] == [{}, {}, {1: 2}]
    assert [row.staleness for row in never] == [{}, {}, {}]
    assert [row.validation for row in early[:2]] == [row.validation for row in never[:2]]
    assert early[2].validation != never[2].validation


def test_the_server_waits_where_everybody_is_at_work():
    # A client that takes twice the deadline: a round that orders, then one that waits.
    slow, fast = ({**DEVICES[0], "examples_per_second": speed} for speed in (1, 1e6))
    timed = {"devices": [slow, fast], "late": "semi_asynchronous", "deadline_seconds": 10.0}
    cohorts = scripted((0,), (), (0,), ())
    data = {"name": "helpers.toy:Lines", "clients": 2}
    state, rows, _ = run(toy(data=data, rounds=4, clock=timed, selector=cohorts))
    assert [row.selected for row in rows] == [(0,), (), (0,), ()]
    assert [row.bytes for row in rows[1::2]] == [0, 0]
    assert [row.staleness for row in rows[1::2]] == [{0: 1}, {0: 1}]
    assert state.clients.chosen == [2, 0]
    assert [row.simulated_seconds for row in rows] == pytest.approx([10.0, 20.0, 30.0, 40.0], rel=1e-3)


def test_a_deadline_that_nobody_can_meet_is_refused_before_training():
    with pytest.raises(InputError, match=r"clock\.deadline_seconds must be at least 1.*\(client 0\); got 0\.5"):
        run(toy(clock=clock("drop", deadline=0.5)))


@pytest.mark.parametrize("late", ["wait", "drop", "semi_asynchronous"])
@pytest.mark.parametrize("sharing", ["fedavg", "scaffold", "cefgl", "gcfl", "fedprox", "local"])
def test_when_nobody_is_late_the_clock_changes_no_bit(late, sharing):
    plain, _, _ = run(toy(sharing=sharing))
    timed, _, _ = run(toy(sharing=sharing, clock=clock(late, deadline=25.0)))
    assert same(plain.sharing, timed.sharing)
    assert plain.best["validation"] == timed.best["validation"]


@settings(max_examples=25, deadline=None)
@given(
    rates=st.lists(st.tuples(*[st.floats(1e-3, 1e3)] * 3), min_size=5, max_size=5),
    latency=st.floats(0, 2),
    codec=st.sampled_from(["identity", "quantized"]),
    cohorts=st.lists(st.sets(st.integers(0, 4), min_size=1), min_size=2, max_size=4),
)
def test_a_round_lasts_as_long_as_its_slowest_client_with_the_ledger_s_bytes(rates, latency, codec, cohorts):
    names = ("examples_per_second", "mbit_down", "mbit_up")
    devices = [{**dict(zip(names, each, strict=True)), "latency_seconds": latency} for each in rates]
    selector = scripted(*(tuple(sorted(cohort)) for cohort in cohorts))
    experiment = toy(rounds=len(cohorts), selector=selector, codec={"name": codec}, clock={"devices": devices})
    rows = []
    with looped(experiment) as (loop, _):
        state = loop.run(loop.start(), lambda state, row: rows.append(row))
        entries = loop.ledger.drain()
    before = 0.0
    for row in rows:
        moved = {
            (client, way): sum(e.bytes for e in entries if (e.round, e.client, e.direction) == (row.round, client, way))
            for client in row.selected
            for way in ("down", "up")
        }
        lasted = max(
            state.examples[client] / devices[client]["examples_per_second"]
            + latency
            + moved[client, "down"] / (devices[client]["mbit_down"] * 125_000)
            + moved[client, "up"] / (devices[client]["mbit_up"] * 125_000)
            for client in row.selected
        )
        assert row.simulated_seconds - before == pytest.approx(lasted, rel=1e-9)
        before = row.simulated_seconds


def test_updates_in_flight_survive_the_wire():
    experiment = toy(rounds=6, clock=clock("semi_asynchronous"))
    whole, _, _ = run(experiment)
    with looped(experiment) as (loop, runtime):
        state = loop.start()
        for _ in range(2):
            loop.step(state)
        assert state.exchange.in_flight
        stored = RunState.from_tree(wire.unpack(wire.pack(state.to_tree())))
        memories = dict(runtime.memories(changed=False))
    with looped(experiment) as (loop, runtime):
        runtime.restore(memories)
        loop.resume(stored)
        resumed = loop.run(stored, lambda state, row: None)
    assert same(whole.sharing, resumed.sharing)
    assert whole.simulated_seconds == resumed.simulated_seconds
    assert same(whole.exchange.in_flight, resumed.exchange.in_flight)


def test_a_client_that_fails_while_others_are_late():
    _, rows, _ = run(toy(rounds=3, clock=clock("semi_asynchronous", max_staleness=9)), gone(0))
    assert rows[0].failed == {0: "0 is gone"}
    assert rows[0].late == (3, 4)


def test_a_silent_round_waits_for_nobody():
    sharing = {"name": "cefgl", "probability": 0.5}
    state, rows, _ = run(toy(rounds=8, sharing=sharing, clock=clock("semi_asynchronous", max_staleness=9)))
    assert state.round == 8
    assert all(math.isfinite(row.simulated_seconds) for row in rows)


@pytest.mark.parametrize("selector", ["all", "fedacs", "harmony", "oort", "power_of_choice", "random"])
@pytest.mark.parametrize("late", ["drop", "semi_asynchronous"])
def test_every_selector_trains_where_answers_are_late(selector, late, tmp_path):
    if selector == "harmony":
        pytest.skip("the toy task describes no labels")
    summary = execute(toy(rounds=6, selector=selector, clock=clock(late)), tmp_path / "run")
    assert summary["rounds"] == 6
    points = json.loads((tmp_path / "run" / "summary.json").read_text())["curve"]
    assert points[-1][-1] == summary["simulated_seconds"]
