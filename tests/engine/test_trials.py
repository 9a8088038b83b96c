"""Probes that train: what clients try counts, costs and tells, and leaves nothing behind."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed, Probe
from fedgraft.engine.client.client import Client
from fedgraft.engine.client.client_memory import packed
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.limits import Limits
from fedgraft.errors import InputError
from fedgraft.experiment.running.runner import execute
from fedgraft.wire import Message
from helpers.node_runs import small
from helpers.toy import Points
from helpers.toy_methods import Scripted
from helpers.toy_runs import EVERYTHING, charged, looped, remembered, run, same, scripted, toy

ZERO = {"weight": np.zeros(1, np.float32), "bias": np.zeros(1, np.float32)}
SHARD = Points(np.array([[1], [2], [1], [3]], np.float32), np.array([2, 4, 3, 5], np.float32), np.array([0, 0, 1, 2]))
"""A client that trains on (1, 2) and (2, 4)."""


def trying(*cohorts, probed, epochs=1, **changes):
    """A toy experiment that tries so many epochs at these clients before each cohort."""
    return toy(selector=scripted(*cohorts, probed=list(probed), tried=epochs), rounds=len(cohorts), **changes)


@pytest.fixture
def client():
    plan = toy(data={"name": "helpers.toy:Lines", "width": 1}, task={"width": 1}, selector={"name": "oort"}).plan
    plan = replace(plan, probes=True)
    return Client(plan, {0: SHARD})


def ask(client, kind, arrays=None, memory=b"", **told):
    """The decoded reply, and what was served."""
    plan = client._plan
    message = Message(kind, 1, told, arrays)
    served = client.serve(0, wire.encode(message, Protocol.of(plan).request_layouts[kind], tuple(told)), memory)
    return wire.decode(
        served.reply, Protocol.of(plan).reply_layouts, Protocol.of(plan).report(wire.kind_of(served.reply))
    ), served


# At a client.


def test_the_losses_are_those_of_the_steps_by_hand(client):
    # y = 2 x on (1, 2) and (2, 4): losses 4 and 16 at zero; after the first step y = x + 0.6 gives 0.16 and 1.96.
    once, _ = ask(client, "trial", ZERO, epochs=1)
    assert once.report == {"loss": 10.0, "loss_sq": 136.0}
    twice, served = ask(client, "trial", ZERO, epochs=2)
    assert twice.report["loss"] == pytest.approx((4 + 16 + 0.16 + 1.96) / 4)
    assert twice.report["loss_sq"] == pytest.approx((16 + 256 + 0.16**2 + 1.96**2) / 4)
    assert twice.arrays is None
    assert same(wire.unpack(packed(served.memory)), {"probed": ZERO})


def test_who_is_then_ordered_to_train_begins_anew_with_the_model_it_has(client):
    _, tried = ask(client, "trial", ZERO, epochs=3)
    after, served = ask(client, "train", memory=packed(tried.memory))
    plain, _ = ask(client, "train", ZERO)
    assert same(after.arrays, plain.arrays)
    assert after.report == plain.report
    assert packed(served.memory) == b""


def test_a_trial_does_the_work_of_its_epochs():
    experiment, shards = small("fedall")
    client, spent = Client(replace(experiment.plan, probes=True), dict(enumerate(shards))), {}
    model = {name: array.copy() for name, array in experiment.plan.first.items()}
    for epochs in (1, 2, 4):
        reply, served = ask(client, "trial", model, epochs=epochs)
        assert reply.kind == "trial"
        spent[epochs] = served.flops
    assert 0 < spent[1] < spent[2] < spent[4]


def test_a_trial_that_diverges_tells_no_finite_losses(client):
    huge = {"weight": np.full(1, 1e30, np.float32), "bias": np.zeros(1, np.float32)}
    reply, _ = ask(client, "trial", huge, epochs=1)
    assert not np.isfinite(reply.report["loss_sq"])


# At the server.


def test_requests_and_replies_are_charged_as_probes():
    with looped(trying((0, 1), (2,), probed=(0, 1, 3), epochs=2)) as (loop, runtime):
        loop.run(loop.start(), lambda state, row: None)
    assert charged(runtime, loop.ledger)["probe"] == 2 * 3 * 16  # the model; scalars are headers
    trials = [message for kind, _, _, message in runtime.sent if kind == "trial"]
    assert len(trials) == 2 * 3
    assert {len(message) for message in trials} == {20 + 4 + 16}
    assert {len(reply) for kind, _, _, reply in runtime.received if kind == "trial"} == {20 + 8}
    limits = Limits(toy().plan)
    assert (limits.request_bytes("trial"), limits.reply_bytes("trial")) == (40, 276)


def test_a_client_that_tried_is_not_sent_the_model_again():
    _, _, runtime = run(trying((0, 3), probed=(0, 1)))
    sizes = {client: len(message) for kind, _, client, message in runtime.sent if kind == "train"}
    assert sizes == {0: wire.message_bytes(), 3: wire.message_bytes() + 16}


def test_the_selector_sees_the_losses_of_the_steps():
    loss, tried = (
        run(toy(selector=scripted((0,), probed=[0, 1], **more), rounds=1))[0].selector["learnt"][0]["probed"]
        for more in ({}, {"tried": 3})
    )
    assert loss.keys() == tried.keys() == {"0", "1"}
    for client, answer in tried.items():
        assert answer.keys() == {"loss", "loss_sq", "seconds"}
        assert answer["loss"] < loss[client]["loss"]  # steps make it less


def test_the_clock_charges_so_many_epochs():
    clock = {"mbit_per_second": 1e9, "examples_per_second": 10.0, "latency_seconds": 0.0, "spread": 0.0}
    seconds = {
        epochs: run(toy(selector=scripted((0,), probed=[2], tried=epochs), rounds=1, clock=clock))[0].simulated_seconds
        for epochs in (0, 1, 4)
    }
    assert seconds[0] == pytest.approx(20 / 10 + 60 / 10)  # client 0 trains on 20 examples, client 2 answers on 60
    assert seconds[1] == pytest.approx(seconds[0])
    assert seconds[4] == pytest.approx(20 / 10 + 4 * 60 / 10)
    state, _, _ = run(toy(selector=scripted((0,), probed=[2], tried=4), rounds=1, clock=clock))
    assert state.selector["learnt"][0]["probed"]["2"]["seconds"] == pytest.approx(4 * 60 / 10)


def test_a_client_that_fails_to_try_is_no_answer_and_may_train():
    def tamper(kind, round, client, reply):
        return ClientFailed("no reply") if kind == "trial" and client == 1 else reply

    state, (row,), runtime = run(trying((0, 1), probed=(0, 1)), tamper)
    assert row.failed == {1: "probe: no reply"}
    assert state.clients.failures["probe"] == 1
    (learnt,) = state.selector["learnt"]
    assert list(learnt["probed"]) == ["0"]
    assert sorted(learnt["reports"]) == ["0", "1"]
    sizes = {client: len(message) for kind, _, client, message in runtime.sent if kind == "train"}
    assert sizes == {0: wire.message_bytes(), 1: wire.message_bytes() + 16}


def test_an_answer_that_is_not_finite_is_refused():
    def tamper(kind, round, client, reply):
        if kind != "trial":
            return reply
        return wire.encode(Message("trial", round, {"loss": np.nan, "loss_sq": 1.0}), names=("loss", "loss_sq"))

    _, (row,), _ = run(trying((0,), probed=(1,)), tamper)
    assert row.failed == {1: "probe: loss of the reply is not finite"}


# Nothing is left behind.

EVERY_MEMORY = {key: value for key, value in EVERYTHING.items() if key != "checkpoint"}
COHORTS = [(0, 2), (1, 2), (0, 4)]


def outcomes(epochs, workers=0):
    """The summary of a run in which every kind of memory there is goes through trials by all clients."""
    selector = scripted(*COHORTS, probed=range(5), tried=epochs)
    changes = {**EVERY_MEMORY, "selector": selector, "rounds": len(COHORTS), "runtime": {"workers": workers}}
    return execute(toy(**changes))


def test_what_is_tried_changes_nothing_of_what_is_learnt():
    plain, tried = outcomes(0), outcomes(2)
    assert plain["validation"] == tried["validation"]
    assert plain["test"] == tried["test"]
    assert plain["bytes"]["model"] == tried["bytes"]["model"]


def test_workers_make_no_difference():
    here, there = outcomes(2), outcomes(2, workers=2)
    assert here["digest"] == there["digest"]
    assert here["bytes"] == there["bytes"]


@pytest.mark.parametrize("recipe", ["fedais", pytest.param("fedall", marks=pytest.mark.slow)])
def test_hidden_states_of_nodes_stay_as_they_were(recipe):
    def scores(tried):
        experiment, shards = small(recipe)
        selector, rows = Scripted(((0, 1, 2), (1, 2, 3), (0, 2, 3)), probed=(0, 1, 2, 3), tried=tried), []
        with looped(
            replace(experiment, selector=selector, plan=replace(experiment.plan, probes=True)), shards=shards
        ) as (loop, runtime):
            state = loop.run(loop.start(), lambda state, row: rows.append(row))
            memories = remembered(runtime)
        kinds = {wire.kind_of(reply) for kind, _, _, reply in runtime.received if kind == "trial"}
        assert kinds == ({"trial"} if tried else set())
        assert state.clients.failures["probe"] == 0
        return [row.validation for row in rows], memories

    assert scores(0) == scores(2)


# What is refused.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "loss", "epochs": 2}, r"^Probe\.epochs must be 1, as nobody trains; got 2\.$"),
        ({"kind": "train", "epochs": 0}, r"^Probe\.epochs must be >= 1; got 0\.$"),
        ({"kind": "losses"}, r"^Probe\.kind must be one of 'loss', 'train'; got 'losses'\. Did you mean 'loss'\?$"),
    ],
)
def test_impossible_probes_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Probe((0,), **options)
