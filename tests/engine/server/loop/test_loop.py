import math
from dataclasses import replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.errors import AllClientsFailedError, BudgetError
from fedgraft.experiment.recipes import discovery
from fedgraft.wire import Message
from helpers.toy_runs import SGD, gone, looped, run, same, scripted, toy, upload

WITHOUT = {"name": "helpers.toy_methods:Without"}


@pytest.mark.parametrize(("fault", "reason"), [("raise", "ValueError: this client is broken"), ("nan", "diverged")])
def test_a_client_that_breaks_is_reported(fault, reason):
    broken = {"name": "helpers.toy:Line", "fault": fault, "faulty_points": 120}  # those of client 2
    state, rows, _ = run(toy(task=broken))
    assert same(state.sharing, run(toy(selector=WITHOUT))[0].sharing)
    assert all(row.failed.keys() == {2} and reason in row.failed[2] for row in rows)
    assert state.clients.failing.keys() == {"2"}
    assert state.clients.chosen == [3] * 5


def test_a_client_that_hangs_is_reported():
    runtime = {"workers": 1, "deadline_seconds": 2.0}
    broken = {"name": "helpers.toy:Line", "fault": "hang", "faulty_points": 120}
    experiment = toy(task=broken, runtime=runtime, rounds=1, selector=scripted((0, 2)))
    state, rows, _ = run(experiment)
    assert rows[0].failed == {2: "no reply within the deadline"}
    assert state.clients.failures["training"] == 1
    assert same(state.sharing, run(toy(rounds=1, selector=scripted((0,))))[0].sharing)


def test_weights_are_those_of_the_examples_that_answered():
    # Zero updates but one: the model moves by that update times the client's share of examples, 20 / (20 + 40 + 60).
    def tamper(kind, round, client, reply):
        if kind != "train":
            return reply
        value = 12.0 if client == 0 else 0.0
        return upload({"weight": np.full(3, value, np.float32), "bias": np.zeros(1, np.float32)})(round, toy().plan)

    experiment = toy(rounds=1, selector={"name": "random", "clients": 3})
    experiment = replace(experiment, selector=discovery.find("selectors", "helpers.toy_methods:Scripted")(((0, 1, 2),)))
    drawn = experiment.plan.build_model().initial
    state, _, _ = run(experiment, tamper)
    np.testing.assert_allclose(state.sharing["model"]["weight"] - drawn["weight"], 2.0, rtol=1e-6)


def test_a_selector_s_own_weights_count_and_are_normalised_over_those_that_answer():
    def tamper(kind, round, client, reply):
        if kind != "train":
            return reply
        if client == 4:
            return ClientFailed("gone")
        value = {0: 10.0, 1: 20.0}[client]
        return wire.encode(
            Message(
                "train",
                round,
                {"loss": 1.0, "loss_sq": 1.0},
                {"weight": np.zeros(3, np.float32), "bias": np.array([value], np.float32)},
            ),
            toy().plan.upload_layout,
            ("loss", "loss_sq"),
        )

    experiment = toy(rounds=1, selector=scripted((0, 1, 4), weights=[3.0, 1.0, 96.0]))
    state, _, _ = run(experiment, tamper)
    assert state.sharing["model"]["bias"] == pytest.approx([0.75 * 10 + 0.25 * 20])


def test_weights_of_zero_for_all_that_answer_move_nothing():
    experiment = toy(rounds=1, selector=scripted((0, 1), weights=[0.0, 0.0]))
    state, rows, _ = run(experiment)
    assert same(state.sharing["model"], experiment.plan.build_model().initial)
    assert state.merges == 0
    assert rows[0].failed == {}


# All clients failing is an error.


def test_all_clients_failing_is_an_error_with_every_reason():
    with looped(toy(), gone(0, 1, 2, 3, 4)) as (loop, _):
        state = loop.start()
        with pytest.raises(AllClientsFailedError, match="Round 1: all 5 selected clients failed") as caught:
            loop.step(state)
    assert caught.value.reasons == {client: f"{client} is gone" for client in range(5)}
    assert state.round == 0


def test_a_cohort_failing_costs_a_round_while_others_may_answer():
    cohorts = [(0, 1), (2, 3), (0, 1), (2, 3)]
    experiment = toy(rounds=4, selector=scripted(*cohorts))
    state, rows, _ = run(experiment, gone(0, 1))
    assert [sorted(row.failed) for row in rows] == [[0, 1], [], [0, 1], []]
    assert math.isnan(rows[0].loss)
    assert rows[0].validation == pytest.approx(state.curve[0]["validation"])
    assert same(state.sharing["model"], run(toy(rounds=4, selector=scripted(*cohorts)), gone(0, 1))[0].sharing["model"])
    with looped(experiment, gone(0, 1, 2, 3)) as (loop, _):
        state = loop.start()
        loop.step(state)
        loop.step(state)  # client 4 has not been asked yet
        assert loop.step(state).failed.keys() == {0, 1}


def test_when_the_last_one_fails_the_reasons_of_all_are_given():
    cohorts = [(0, 1), (2, 3, 4)]
    with looped(toy(selector=scripted(*cohorts)), gone(0, 1, 2, 3, 4)) as (loop, _):
        state = loop.start()
        loop.step(state)
        with pytest.raises(AllClientsFailedError, match="Round 2: all 5") as caught:
            loop.step(state)
    assert sorted(caught.value.reasons) == [0, 1, 2, 3, 4]


def test_a_client_that_answers_again_is_no_failure_any_more():
    state, rows, _ = run(toy(), gone(2, rounds=[1]))
    assert [sorted(row.failed) for row in rows] == [[2], [], []]
    assert state.clients.failing == {}


def test_failures_are_counted_by_what_clients_failed_at():
    def tamper(kind, round, client, reply):
        fails = (kind, client) in {("hello", 4), ("probe", 1), ("train", 2), ("evaluate", 0)}
        return ClientFailed("gone") if fails else reply

    options = {"selector": scripted((0, 2), (0, 2), probed=[0, 1]), "rounds": 2, "dropout": {"rate": 0.0}}
    state, _, _ = run(toy(evaluation={"at": "clients"}, **options), tamper)
    assert state.clients.failures == {"setup": 1, "probe": 2, "training": 2, "scoring": 2}
    assert state.clients.answered == 2


def test_who_dropped_out_did_not_fail():
    state, _, _ = run(toy(dropout={"rate": 0.5}, rounds=6))
    assert state.clients.failures == dict.fromkeys(("setup", "probe", "training", "scoring"), 0)


# When a run ends.


def test_a_byte_budget_that_pays_for_no_round_is_an_error():
    least = 5 * (20 + 24)  # what five hellos take
    for budget, reason in ((least - 1, "asking every client what it has"), (least + 300, "the set-up took 220 bytes")):
        with looped(toy(budget={"bytes": budget})) as (loop, runtime):
            with pytest.raises(BudgetError, match=rf"budget\.bytes = {budget} does not pay for one round: {reason}"):
                loop.start()
            assert loop.ledger.total <= budget
            assert all(kind == "hello" for kind, *_ in runtime.sent)


@pytest.mark.parametrize("every", [1, 2, 3, 9])
def test_every_so_many_rounds_are_scored_and_the_last_one_always(every):
    _, rows, _ = run(toy(rounds=5, evaluation={"every": every}))
    scored = [row.round for row in rows if row.validation is not None]
    assert scored == sorted({*range(every, 6, every), 5})


@pytest.mark.parametrize("changes", [{"budget": {"bytes": 3000}}, {"budget": {"seconds": 0.3}}])
@pytest.mark.parametrize("at", ["server", "clients"])
def test_the_last_round_is_scored_whatever_ends_the_run(changes, at):
    state, rows, runtime = run(toy(rounds=50, evaluation={"every": 20, "at": at}, **changes))
    assert state.finished in ("budget", "seconds")
    assert state.curve[-1]["round"] == state.round == len(rows) > 1
    assert state.curve[-1]["bytes"] == state.bytes["down"] + state.bytes["up"]
    if at == "clients":
        assert [round for kind, round, client, _ in runtime.sent if kind == "evaluate" and client == 0] == [state.round]


# What a round leaves behind.


def test_a_selector_learns_what_the_round_brought():
    state, rows, _ = run(toy(rounds=1, selector=scripted((0, 1, 2), probed=[1])), gone(2))
    (told,) = state.selector["learnt"]
    assert sorted(told["probed"]) == ["1"]
    assert told["probed"]["1"].keys() == {"loss", "loss_sq", "seconds"}
    assert sorted(told["reports"]) == sorted(told["updates"]) == ["0", "1"]
    assert told["reports"]["0"].keys() == {"examples", "loss", "loss_sq"}
    assert told["failed"] == [2]
    assert told["score"] == rows[0].validation
    assert told["bytes"] == rows[0].bytes == rows[0].bytes_total - 5 * (20 + 24)


def test_a_row_says_what_happened():
    state, rows, _ = run(toy(rounds=2, selector=scripted((0, 1), (3,))))
    assert [row.selected for row in rows] == [(0, 1), (3,)]
    assert [row.bytes_total for row in rows] == [point["bytes"] for point in state.curve[1:]]
    assert rows[1].bytes_total == rows[0].bytes_total + rows[1].bytes
    assert state.clients.chosen == [1, 1, 0, 1, 0]
    assert [row.validation for row in rows] == [point["validation"] for point in state.curve[1:]]


def test_the_simulated_clock_waits_for_the_slowest():
    clock = {"mbit_per_second": 8e-3, "examples_per_second": 10.0, "latency_seconds": 1.0, "spread": 0.0}
    state, rows, runtime = run(toy(rounds=1, selector=scripted((0, 2)), clock=clock, training={**SGD, "epochs": 2}))
    both_ways = [*runtime.sent, *runtime.received]
    moved = sum(len(message) for kind, _, client, message in both_ways if kind == "train" and client == 2)
    assert rows[0].simulated_seconds == pytest.approx(1.0 + moved / 1000 + 2 * 60 / 10)
    assert state.simulated_seconds == rows[0].simulated_seconds


def test_the_best_round_by_validation_keeps_its_model():
    state, rows, _ = run(toy(rounds=6, training={**SGD, "learning_rate": 0.9}))
    scores = [state.curve[0]["validation"], *(row.validation for row in rows)]
    assert state.best["round"] == int(np.argmin(scores))
    assert state.best["validation"] == min(scores)
    assert state.best["sums"].keys() == {"validation", "test"}


def test_a_state_survives_the_wire_at_any_moment():
    experiment = toy(
        rounds=4,
        selector="fedacs",
        codec="helpers.toy_methods:Feedback",
        sharing="helpers.toy_methods:Momentum",
        sampler="helpers.toy_methods:Hard",
        evaluation={"at": "clients"},
    )
    whole, _, _ = run(experiment)
    with looped(experiment) as (loop, runtime):
        state, memories = loop.start(), {}
        memories.update(runtime.memories())
        tree, totals = wire.pack(state.to_tree()), dict(loop.ledger.totals)
    for _ in range(4):
        with looped(experiment) as (loop, runtime):
            state = type(state).from_tree(wire.unpack(tree))
            runtime.restore(memories)
            loop.resume(state)
            assert loop.ledger.totals == totals
            loop.step(state)
            memories.update(runtime.memories())
            tree, totals = wire.pack(state.to_tree()), dict(loop.ledger.totals)
    assert same(state.sharing, whole.sharing)
    assert same(state.selector, whole.selector)
    assert (state.bytes, state.clients.chosen, state.finished) == (whole.bytes, whole.clients.chosen, whole.finished)
