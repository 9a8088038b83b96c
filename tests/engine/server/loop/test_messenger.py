"""Traffic of rounds: what is sent to whom, how often it is encoded, what it costs."""

import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.engine.server.ledger import PURPOSES
from helpers.toy_runs import charged, length, looped, run, same, toy

PROBING = {"name": "power_of_choice", "clients": 2, "candidates": 3}
AT_CLIENTS = {"at": "clients"}


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
        run(toy(codec="helpers.toy_methods:Feedback", evaluation={"at": at, "averaging": 0.5}))[0]
        for at in ("server", "clients")
    )
    assert same(at_server.sharing, at_clients.sharing)
