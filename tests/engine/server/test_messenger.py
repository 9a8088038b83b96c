import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.engine.server.exchange import PURPOSES as PURPOSE_OF
from fedgraft.engine.server.ledger import DIRECTIONS, PURPOSES
from fedgraft.errors import AllClientsFailedError, BudgetError
from fedgraft.wire import Message
from helpers.toy_runs import looped, remembered, run, same, toy

PROBING = {"name": "power_of_choice", "clients": 2, "candidates": 3}
AT_CLIENTS = {"at": "clients"}


@pytest.fixture
def publishing(monkeypatch):
    """A toy task whose clients publish statistics."""
    from helpers import toy as module
    from helpers.toy_methods import Published

    monkeypatch.setattr(module, "Line", Published)


def length(reply):
    return reply.bytes_up if isinstance(reply, ClientFailed) else len(reply)


def charged(runtime, ledger):
    """Hold every total of the ledger against the messages themselves."""
    expected = dict.fromkeys((*DIRECTIONS, *PURPOSES), 0)
    for direction, messages in (("down", runtime.sent), ("up", runtime.received)):
        for kind, _, _, message in messages:
            header = 0 if isinstance(message, ClientFailed) else wire.header_bytes(message)
            expected[direction] += length(message)
            expected["header"] += header
            expected[PURPOSE_OF[kind]] += length(message) - header
    assert ledger.totals == expected
    assert ledger.total == expected["down"] + expected["up"] > 0
    return expected


@pytest.mark.parametrize(
    ("changes", "used"),
    [
        ({}, {"model"}),
        ({"selector": PROBING}, {"model", "probe"}),
        ({"evaluation": AT_CLIENTS}, {"model", "evaluation"}),
        ({"selector": PROBING, "evaluation": AT_CLIENTS, "codec": "quantized"}, {"model", "probe", "evaluation"}),
        ({"codec": "helpers.toy_methods:Feedback", "sharing": "helpers.toy_methods:Momentum"}, {"model"}),
    ],
)
def test_the_ledger_is_the_length_of_all_messages(changes, used):
    with looped(toy(**changes)) as (loop, runtime):
        state = loop.run(loop.start(), lambda state, row: None)
    expected = charged(runtime, loop.ledger)
    assert {purpose for purpose in PURPOSES if expected[purpose]} == used | {"header"}
    assert state.bytes == expected
    entries = loop.ledger.drain()
    assert sum(entry.bytes for entry in entries) == loop.ledger.total
    for round in range(4):
        of_round = [m for _, r, _, m in [*runtime.sent, *runtime.received] if r == round]
        assert sum(entry.bytes for entry in entries if entry.round == round) == sum(map(length, of_round))


def test_statistics_are_charged_and_reach_the_clients(publishing):
    with looped(toy()) as (loop, runtime):
        loop.start()
    expected = charged(runtime, loop.ledger)
    assert expected["statistics"] == 5 * 16 + 5 * 8  # two float64 up and one down, per client
    shards = toy().data.load(1)
    mean = np.mean(np.concatenate([shard.y[shard.split == 0] for shard in shards]).astype(np.float64))
    for memory in remembered(runtime).values():
        assert wire.unpack(memory)["shared"]["mean"] == pytest.approx([mean])


def test_a_model_message_has_at_most_64_bytes_of_header():
    _, _, runtime = run(toy(selector=PROBING, evaluation=AT_CLIENTS))
    for kind, _, _, message in [*runtime.sent, *runtime.received]:
        assert wire.header_bytes(message) <= 64
        if kind == "train" and len(message) > wire.header_bytes(message):
            assert len(message) - wire.header_bytes(message) == 4 * 4  # three weights and a bias, nothing else


def test_a_model_is_encoded_once_for_everybody():
    _, _, runtime = run(toy(rounds=1, evaluation=AT_CLIENTS))
    for kind in ("train", "evaluate"):
        sent = [message for k, _, _, message in runtime.sent if k == kind]
        assert len(sent) == 5
        assert all(message is sent[0] for message in sent)


def test_a_probed_client_is_not_sent_the_model_again():
    _, _, runtime = run(toy(selector=PROBING))
    probed = {(round, client) for kind, round, client, _ in runtime.sent if kind == "probe"}
    trained = [(round, client, message) for kind, round, client, message in runtime.sent if kind == "train"]
    assert all((round, client) in probed for round, client, _ in trained)
    assert all(len(message) == wire.message_bytes() for _, _, message in trained)


def test_a_client_that_did_not_answer_its_probe_is_sent_the_model():
    def tamper(kind, round, client, reply):
        return ClientFailed("no reply") if kind == "probe" and client == 1 else reply

    scripted = {"name": "helpers.toy_methods:Scripted", "cohorts": [[0, 1]], "probed": [0, 1]}
    state, (row,), runtime = run(toy(rounds=1, selector=scripted), tamper)
    sizes = {client: len(message) for kind, _, client, message in runtime.sent if kind == "train"}
    assert sizes == {0: wire.message_bytes(), 1: wire.message_bytes() + 16}
    assert row.failed == {1: "probe: no reply"}
    (learnt,) = state.selector["learnt"]
    assert list(learnt["probed"]) == ["0"]
    assert sorted(learnt["reports"]) == ["0", "1"]
    assert learnt["failed"] == []


def test_a_lossy_downlink_does_not_know_whether_the_model_is_scored_at_clients():
    # What a codec remembers of models sent to be scored must not leak into what is trained from.
    at_server, at_clients = (
        run(toy(codec="helpers.toy_methods:Feedback", sharing={"averaging": 0.5}, evaluation={"at": at}))[0]
        for at in ("server", "clients")
    )
    assert same(at_server.sharing, at_clients.sharing)


# Setting up.


def hello(examples):
    """A tampered runtime in which client 2 claims to have so many examples."""

    def tamper(kind, round, client, reply):
        if kind != "hello" or client != 2:
            return reply
        return wire.encode(Message("hello", 0, {"examples": examples}), names=("examples",))

    return tamper


@pytest.mark.parametrize("examples", [-1.0, 0.5, float("nan"), float("inf"), 1e30])
def test_an_impossible_number_of_examples_costs_the_client_the_run(examples):
    state, rows, _ = run(toy(), hello(examples))
    assert state.profiles[2] == {}
    assert state.examples == [20, 40, 0, 20, 40]
    assert all(row.selected == (0, 1, 3, 4) for row in rows)
    assert "2" in state.failing


def test_a_client_without_examples_takes_no_part_and_is_no_failure():
    state, rows, _ = run(toy(), hello(0.0))
    assert all(row.selected == (0, 1, 3, 4) for row in rows)
    assert state.failing == {}


def tampered_statistics(value):
    def tamper(kind, round, client, reply):
        if kind != "hello" or client != 2:
            return reply
        plan = toy().plan
        arrays = None if value is None else {"sums": np.array([60.0, value])}
        return wire.encode(Message("hello", 0, {"examples": 60.0}, arrays), plan.reply_layouts["hello"], ("examples",))

    return tamper


@pytest.mark.parametrize(
    ("value", "reason"), [(float("nan"), "sums of the reply is not finite"), (None, "without the arrays")]
)
def test_statistics_that_cannot_be_used_reach_nobody(publishing, value, reason):
    with looped(toy(), tampered_statistics(value)) as (loop, runtime):
        state = loop.start()
    assert reason in state.failing["2"]
    assert state.examples[2] == 0
    told = {~client: message for client, message in runtime.inner.memories(changed=False) if client < 0}
    assert sorted(told) == [0, 1, 3, 4]
    means = {float(wire.decode(message, loop._plan.request_layouts).arrays["mean"][0]) for message in told.values()}
    assert len(means) == 1
    assert np.isfinite(list(means)).all()


def test_a_client_that_cannot_take_the_statistics_takes_no_part(publishing):
    def tamper(kind, round, client, reply):
        return ClientFailed("gone") if kind == "statistics" and client == 0 else reply

    state, rows, _ = run(toy(), tamper)
    assert state.failing == {"0": "gone"}
    assert all(row.selected == (1, 2, 3, 4) for row in rows)


@pytest.mark.parametrize("kind", ["hello", "statistics"])
def test_nobody_there_is_an_error_with_the_reasons(publishing, kind):
    def tamper(asked, round, client, reply):
        return ClientFailed(f"{client} is gone") if asked == kind else reply

    with looped(toy(), tamper) as (loop, _), pytest.raises(AllClientsFailedError) as caught:
        loop.start()
    assert caught.value.reasons == {client: f"{client} is gone" for client in range(5)}


def test_statistics_of_any_length_share_the_budget(publishing):
    task = {"name": "helpers.toy:Line", "varying": True}  # they publish 40 to 120 bytes more
    with looped(toy(task=task, budget={"bytes": 100_000})) as (loop, runtime):
        loop.start()
    charged(runtime, loop.ledger)
    for budget, reason in (
        (150, "asking every client what it has takes 220 bytes, 150 are left"),
        (515, "clients have 83 bytes each for what they publish, which is not enough"),
        (1000, "sending every client the combined statistics takes"),
    ):
        with looped(toy(task=task, budget={"bytes": budget})) as (loop, _):
            with pytest.raises(BudgetError, match=rf"budget\.bytes = {budget} does not pay for one round: {reason}"):
                loop.start()
            assert loop.ledger.total <= budget


# Scoring.


def nan_sums(kind, round, client, reply):
    if kind != "evaluate" or client != 2:
        return reply
    sums = {split: np.array([np.nan, 1.0]) for split in ("validation", "test")}
    return wire.encode(Message("evaluate", round, arrays=sums), toy().plan.reply_layouts["evaluate"])


def no_sums(kind, round, client, reply):
    return wire.encode(Message("evaluate", round)) if kind == "evaluate" and client == 2 else reply


@pytest.mark.parametrize("tamper", [nan_sums, no_sums])
def test_a_client_that_cannot_be_scored_is_reported_and_left_out(tamper):
    experiment = toy(evaluation=AT_CLIENTS)
    state, rows, _ = run(experiment, tamper)
    whole, whole_rows, _ = run(experiment)
    assert same(state.sharing, whole.sharing)
    for row, honest in zip(rows, whole_rows, strict=True):
        assert row.failed.keys() == {2}
        assert row.failed[2].startswith("scoring: ")
        assert np.isfinite(row.validation)
        assert row.validation != honest.validation


def test_nobody_scored_is_nan_and_the_last_model_is_kept():
    def tamper(kind, round, client, reply):
        return ClientFailed("gone") if kind == "evaluate" else reply

    state, rows, _ = run(toy(evaluation=AT_CLIENTS), tamper)
    assert all(np.isnan(row.validation) for row in rows)
    assert state.best["round"] == 0  # scored by the experimenter
