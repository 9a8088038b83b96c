import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.errors import AllClientsFailedError, BudgetError, FedgraftError
from fedgraft.experiment import discovery
from fedgraft.wire import Message
from fedgraft.wire.layouts import Layout
from helpers.toy_runs import SGD, looped, run, same, toy

WITHOUT = {"name": "helpers.toy_methods:Without"}


def scripted(*cohorts, **options):
    return {"name": "helpers.toy_methods:Scripted", "cohorts": [list(cohort) for cohort in cohorts], **options}


# One bad client costs itself its round, and nobody else anything.


def upload(arrays, report=1.0, layout=None, kind="train", round=None):
    """A tampered reply of client 2, in place of what it trained."""

    def make(round_asked, plan):
        if arrays is None:
            return wire.encode(Message(kind, round or round_asked, {"loss": report}), names=("loss",))
        message = Message(kind, round or round_asked, {"loss": report}, arrays)
        return wire.encode(message, layout or plan.upload_layout, ("loss",))

    return make


FINE = {"weight": np.zeros(3, np.float32), "bias": np.zeros(1, np.float32)}
NOT_FINITE = {"weight": np.array([0, np.nan, 0], np.float32), "bias": np.zeros(1, np.float32)}
INFINITE = {"weight": np.zeros(3, np.float32), "bias": np.array([np.inf], np.float32)}
LONGER = {"weight": np.zeros(4, np.float32), "bias": np.zeros(1, np.float32)}
BAD = {
    "nan": (upload(NOT_FINITE), "weight of the reply is not finite"),
    "infinite": (upload(INFINITE), "bias of the reply is not finite"),
    "nan in the report": (upload(FINE, math.nan), "loss of the reply is not finite"),
    "wrong shape": (upload(LONGER, layout=Layout.of(LONGER)), "holds arrays of layout"),
    "no update": (upload(None), "without the arrays that belong to it"),
    "wrong round": (upload(FINE, round=9), "answered 'train' of round 9 to 'train' of round"),
    "wrong kind": (
        lambda round, plan: wire.encode(Message("statistics", round)),
        "answered 'statistics' of round",
    ),
    "nothing": (lambda round, plan: b"", "at least 20 bytes"),
    "random bytes": (lambda round, plan: np.random.default_rng(round).bytes(40), "Not bytes of fedgraft"),
    "cut short": (lambda round, plan: upload(FINE)(round, plan)[:-1], "bytes are left|needs"),
    "too long": (lambda round, plan: bytes(5000), "a reply of 5000 bytes where at most 276 are allowed"),
    "an error": (lambda round, plan: wire.encode(Message("error", round, text="no power")), "^no power$"),
    "an error that is no text": (
        lambda round, plan: wire.encode(Message("error", round, text="x"))[:-1] + b"\xff",
        "not UTF-8",
    ),
    "no reply": (lambda round, plan: ClientFailed("no reply within the deadline"), "no reply within the deadline"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_reply_costs_that_client_its_round_and_leaves_the_average_alone(what):
    make, reason = BAD[what]
    experiment = toy()

    def tamper(kind, round, client, reply):
        return make(round, experiment.plan) if kind == "train" and client == 2 else reply

    state, rows, runtime = run(experiment, tamper)
    expected, expected_rows, _ = run(toy(selector=WITHOUT))
    assert same(state.sharing, expected.sharing)
    for row, honest in zip(rows, expected_rows, strict=True):
        assert row.selected == (0, 1, 2, 3, 4)
        assert row.failed.keys() == {2}
        assert re.search(reason, row.failed[2])
        assert (row.validation, row.loss) == (honest.validation, honest.loss)
    received = [reply for kind, _, client, reply in runtime.received if client == 2 and kind == "train"]
    assert len(received) == 3


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_bytes_at_any_moment_are_survived(data):
    def tamper(kind, round, client, reply):
        if client != 2 or not data.draw(st.booleans()):
            return reply
        blob = bytearray(data.draw(st.one_of(st.just(reply), st.binary(max_size=80))))
        for _ in range(data.draw(st.integers(0, 3)) if blob else 0):
            blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
        return bytes(blob)

    state, rows, _ = run(toy(rounds=2, evaluation={"at": "clients"}, selector="oort"), tamper)
    assert len(rows) == 2
    assert all(np.isfinite(value).all() for value in state.sharing["model"].values())


@pytest.mark.parametrize(("fault", "reason"), [("raise", "ValueError: this client is broken"), ("nan", "diverged")])
def test_a_client_that_breaks_is_reported(fault, reason):
    broken = {"name": "helpers.toy:Line", "fault": fault, "faulty_points": 120}  # those of client 2
    state, rows, _ = run(toy(task=broken))
    assert same(state.sharing, run(toy(selector=WITHOUT))[0].sharing)
    assert all(row.failed.keys() == {2} and reason in row.failed[2] for row in rows)
    assert state.failing.keys() == {"2"}
    assert state.chosen == [3] * 5


@pytest.mark.parametrize(
    ("fault", "deadline", "reason"),
    [("hang", 2.0, "no reply within the deadline"), ("die", 0, r"its worker process died (exit code 9)")],
)
def test_a_client_that_hangs_or_kills_its_worker_is_reported(fault, deadline, reason):
    runtime = {"workers": 1, "deadline_seconds": deadline}
    broken = {"name": "helpers.toy:Line", "fault": fault, "faulty_points": 120}
    experiment = toy(task=broken, runtime=runtime, rounds=1, selector=scripted((0, 2)))
    state, rows, _ = run(experiment)
    assert rows[0].failed == {2: reason}
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
            Message("train", round, {"loss": 1.0, "loss_sq": 1.0}, {**FINE, "bias": np.array([value], np.float32)}),
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
    assert state.sharing["merges"] == 0
    assert rows[0].failed == {}


# All clients failing is an error.


def gone(*clients, rounds=range(99)):
    def tamper(kind, round, client, reply):
        return ClientFailed(f"{client} is gone") if kind == "train" and client in clients and round in rounds else reply

    return tamper


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
    assert state.failing == {}


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


def test_scoring_at_clients_is_charged_and_scores_the_same():
    server, clients = (run(toy(evaluation={"at": at}))[0] for at in ("server", "clients"))
    assert server.bytes["evaluation"] == 0
    per_round = 5 * (16 + 4 * 8)  # the model down; two splits of two float64 up
    assert clients.bytes["evaluation"] == 3 * per_round
    assert [point["validation"] for point in server.curve] == [point["validation"] for point in clients.curve]
    assert same(server.sharing, clients.sharing)


# A budget is a promise, whoever selects.


@pytest.mark.parametrize("selector", discovery.names("selectors"))
@settings(max_examples=12, deadline=None)
@given(
    budget=st.integers(1, 9000),
    clients=st.integers(1, 5),
    codec=st.sampled_from(["identity", "float16", "quantized"]),
    at=st.sampled_from(["server", "clients"]),
    every=st.integers(1, 3),
    failing=st.sets(st.integers(1, 4), max_size=1),
)
def test_the_byte_budget_is_never_exceeded(selector, budget, clients, codec, at, every, failing):
    experiment = toy(
        data={"name": "helpers.toy:Lines", "clients": clients, "points": 8},
        selector=selector,
        codec=codec,
        budget={"bytes": budget},
        evaluation={"at": at, "every": every},
        rounds=6,
    )
    rows = []
    with looped(experiment, gone(*failing)) as (loop, runtime):
        try:
            state = loop.run(loop.start(), lambda state, row: rows.append(row))
        except BudgetError:
            assert not any(kind in ("train", "probe", "evaluate") for kind, *_ in runtime.sent)
        else:
            assert rows
            assert state.finished in ("rounds", "budget")
        messages = [message for *_, message in [*runtime.sent, *runtime.received]]
    spent = sum(m.bytes_up if isinstance(m, ClientFailed) else len(m) for m in messages)
    assert loop.ledger.total == spent <= budget


# A selector is held to its contract.


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        (scripted((0, 0)), r"Scripted selected \[0, 0\]; available, each once and ascending, are \[0, 1, 2, 3, 4\]"),
        (scripted((1, 0)), r"Scripted selected \[1, 0\]"),
        (scripted((0, 5)), r"Scripted selected \[0, 5\]"),
        (scripted((-1, 0)), r"Scripted selected \[-1, 0\]"),
        (scripted((0,), probed=[0, 7]), r"Scripted probed \[0, 7\]"),
        (scripted((0, 1), weights=[1.0]), r"gave the weights \(1\.0,\) to the clients \[0, 1\]"),
        (scripted((0, 1), weights=[1.0, -1.0]), "it must be one each, finite and >= 0"),
        (scripted((0, 1), weights=[1.0, math.nan]), "it must be one each, finite and >= 0"),
    ],
)
def test_a_selector_that_breaks_its_contract_is_caught_before_anything_is_sent(selector, reason):
    with looped(toy(selector=selector)) as (loop, runtime):
        state = loop.start()
        before = len(runtime.sent)
        with pytest.raises(FedgraftError, match=reason):
            loop.step(state)
        assert len(runtime.sent) == before


@pytest.mark.parametrize("options", [{"cohorts": [[0, 1, 2, 3, 4]]}, {"cohorts": [[0]], "probed": [0, 1, 2, 3, 4]}])
def test_a_selector_that_breaks_the_budget_is_caught_before_anything_is_sent(options):
    selector = {"name": "helpers.toy_methods:Scripted", **options}
    with looped(toy(selector=selector, budget={"bytes": 1200})) as (loop, runtime):
        state = loop.start()
        before = len(runtime.sent)
        with pytest.raises(FedgraftError, match=r"Scripted (selected|probed) clients for 1\d{3} bytes with 9\d\d left"):
            loop.step(state)
        assert len(runtime.sent) == before


def test_a_selector_learns_what_the_round_brought():
    state, rows, _ = run(toy(rounds=1, selector=scripted((0, 1, 2), probed=[1])), gone(2))
    (told,) = state.selector["learnt"]
    assert sorted(told["probed"]) == ["1"]
    assert told["probed"]["1"].keys() == {"loss", "loss_sq"}
    assert sorted(told["reports"]) == sorted(told["updates"]) == ["0", "1"]
    assert told["reports"]["0"].keys() == {"examples", "loss", "loss_sq"}
    assert told["failed"] == [2]
    assert told["score"] == rows[0].validation
    assert told["bytes"] == rows[0].bytes == rows[0].bytes_total - 5 * (20 + 24)


# What a round leaves behind.


def test_a_row_says_what_happened():
    state, rows, _ = run(toy(rounds=2, selector=scripted((0, 1), (3,))))
    assert [row.selected for row in rows] == [(0, 1), (3,)]
    assert [row.bytes_total for row in rows] == [point["bytes"] for point in state.curve[1:]]
    assert rows[1].bytes_total == rows[0].bytes_total + rows[1].bytes
    assert state.chosen == [1, 1, 0, 1, 0]
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
    assert (state.bytes, state.chosen, state.finished) == (whole.bytes, whole.chosen, whole.finished)


# How much of a run is over, which learning rates follow.
