"""A round is served once: the same request has the same bytes, another one has none, also after a restart."""

import json
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.engine.privacy.policy import Policy
from fedgraft.engine.privacy.secure_sum import COUNT, KEYS, PEERS
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.table import TABLE
from fedgraft.errors import InputError, MachineError, RefusedError, WireError
from fedgraft.experiment.running import runner
from fedgraft.experiment.running.recorder import Silent
from fedgraft.runtimes.federation import journal
from fedgraft.runtimes.federation.audit import FILE, AuditLog
from fedgraft.runtimes.federation.envelope import Answer, Order, opened, packed
from fedgraft.runtimes.federation.nodes_runtime import NodesRuntime
from fedgraft.secrets.masked_sum import Member
from fedgraft.testing.runs import play, toy
from fedgraft.testing.runtimes import NODES, REMEMBERING
from fedgraft.wire import Message
from helpers.killed_runs import Killed
from helpers.local_nodes import RUN, LocalLink, local_runtime, nodes_of
from helpers.local_sites import LocalSites, federated_files

ENOUGH = 1 << 20


class Server:
    """Asks a node for what a server may ask."""

    def __init__(self, root):
        self.experiment, self.root = toy(evaluation={"at": "clients"}), root
        self.start()

    def start(self, run=RUN, **policy):
        """Start all nodes, each with this policy, and join a run."""
        plan = replace(self.experiment.plan, policy=Policy(**policy))
        self.nodes = nodes_of(plan, self.experiment.data.load(self.experiment.seed), self.root)
        self.runtime = NodesRuntime(LocalLink(self.nodes), run, 5, b"")
        self.runtime.wait_for_all()

    def ask(self, kind="train", round=1, model=0.0, **detail):
        plan = self.experiment.plan
        arrays = {name: array + array.dtype.type(model) for name, array in plan.first.items()}
        message = Message(kind, round, arrays=plan.downlink.encode(arrays, None, None)[0], **detail)
        request = wire.encode(message, Protocol.of(plan).request_layouts[kind])
        return self.runtime.exchange({1: request}, {1: ENOUGH}, 5.0)[1]

    def decision_thresholds(self):
        lines = logged(self.root / "1" / FILE)
        return [(line["kind"], line["round"], line["decision"]) for line in lines]


def logged(path):
    """The lines of a log about what has left."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if "decision" in line]


@pytest.fixture
def server(tmp_path):
    return Server(tmp_path)


def refused(answer, said):
    assert isinstance(answer, ClientFailed), "it was served"
    assert answer.reason == said


def test_a_round_cannot_be_asked_for_again_with_another_model(server, caplog):
    """The attack: a memory that is kept, and one crafted model after the other."""
    first = server.ask()
    asked = "round was served"
    for again in range(2):
        server.runtime.restore({})  # from the memory of the beginning
        refused(server.ask(model=1.0), asked)
        server.runtime.restore({})
        assert server.ask() == first
        if not again:
            server.start()
    assert "round 1 was served: 'train' was asked for by another request" in caplog.text, "words stay at the site"
    assert server.decision_thresholds()[1:4] == [("train", 1, "sent"), ("train", 1, "refused"), ("train", 1, "sent")]


def test_the_same_request_from_another_memory_is_another_request(tmp_path):
    server = Server(tmp_path)
    server.experiment = toy(training={"optimizer": "adam", "keep_moments": True})
    server.start()
    assert isinstance(server.ask(), bytes)
    assert server.runtime._memories[1], "it remembers its moments"
    refused(server.ask(), "round was served")


def test_other_rounds_kinds_and_runs_are_others(server):
    assert isinstance(server.ask(), bytes)
    assert isinstance(server.ask("evaluate", model=1.0), bytes)
    refused(server.ask("evaluate"), "round was served")
    assert isinstance(server.ask(round=2, model=1.0), bytes)
    server.start("f" * 32)
    assert isinstance(server.ask(model=1.0), bytes)


def test_another_run_that_is_refused_does_not_make_a_node_forget_what_it_has_served(server):
    """The attack: a run whose data do not fit is begun in between, and the first run's round is asked for again."""
    node = server.nodes[1]
    first = server.ask()

    def refuse(recipe, told, run, nonce):
        raise InputError("no such column")

    node.read_data = refuse
    sent = node.answer(packed(Order("join", "f" * 32, bytes(16), request=b"")))
    assert opened(Answer, sent).reply == b"data do not fit"
    node.read_data = None
    server.runtime.restore({})
    refused(server.ask(model=1.0), "round was served")
    server.runtime.restore({})
    assert server.ask() == first


def test_a_policy_may_allow_more_requests_of_a_round(server):
    server.start(queries_per_round=2)
    assert isinstance(server.ask(), bytes)
    assert isinstance(server.ask(model=1.0), bytes)
    refused(server.ask(model=2.0), "round was served")


MASKED = {
    "secure_sum": {"name": "secagg"},
    "codec": {"name": "quantized", "scale": "agreed"},
    "evaluation": {"at": "clients"},
}


def test_a_masked_sum_is_asked_for_once_whatever_a_policy_allows(tmp_path):
    """Two answers under the same keys would undo their masks."""
    server = Server(tmp_path)
    server.experiment = toy(**MASKED)
    server.start(queries_per_round=5)
    plan = server.experiment.plan

    def keys(segment):
        request = wire.encode(Message("keys", 1, segment=segment), Protocol.of(plan).request_layouts["keys"])
        return server.runtime.exchange({1: request}, {1: ENOUGH}, 5.0)[1]

    def shares(peers):
        told = {PEERS: np.array(peers, np.uint32), KEYS: np.tile(np.frombuffer(public, np.uint8), (len(peers), 1))}
        message = Message("shares", 1, {COUNT: 4.0}, told)
        request = wire.encode(
            message, Protocol.of(plan).request_layouts["shares"], Protocol.of(plan).request_names["shares"]
        )
        return server.runtime.exchange({1: request}, {1: ENOUGH}, 5.0)[1]

    public = Member(0, 1, 0, bytes(32)).public
    assert keys(0) != keys(1), "each sum of a round has keys of its own"
    first = shares([0, 2, 3])
    assert isinstance(first, bytes)
    server.runtime.restore({})
    refused(shares([0, 2, 4]), "round was served")


def test_progress_does_not_make_a_request_another_place(server):
    assert isinstance(server.ask(progress=1), bytes)
    refused(server.ask(progress=2), "round was served")


def test_an_answer_that_is_another_one_now_does_not_leave(server):
    assert isinstance(server.ask(), bytes)
    node = server.nodes[1]
    joined = node._runs[RUN]
    joined.client._plan = toy(seed=2, training={"optimizer": "sgd", "learning_rate": 1e-3}).plan
    joined.client._models.clear()
    server.runtime.restore({})
    refused(server.ask(), "answer has changed")


def test_an_error_may_be_followed_by_an_answer(server):
    node = server.nodes[1]
    loss = node._runs[RUN].client._train

    def failing(*given):
        raise ValueError("memory of a device")

    node._runs[RUN].client._handlers["train"] = failing
    assert wire.kind_of(server.ask()) == "error"
    node._runs[RUN].client._handlers["train"] = loss
    assert wire.kind_of(server.ask()) == "train"


def test_nothing_leaves_that_cannot_be_logged(server, monkeypatch, caplog):
    def full(self, line):
        raise MachineError("audit.jsonl cannot be written: No space left on device.")

    monkeypatch.setattr("fedgraft.runtimes.federation.audit.AuditLog.add", full)
    refused(server.ask(), "cannot serve request")
    assert "Order 'serve' has no answer, for it cannot be logged: audit.jsonl cannot be written" in caplog.text


def test_a_set_up_message_is_the_one_that_was_served(tmp_path):
    log = AuditLog(tmp_path / FILE)
    one, two, train = (
        wire.encode(Message(kind, round)) for kind, round in (("statistics", 0), ("hop", 0), ("train", 1))
    )
    kept = journal.Journal(log)
    kept.begin(RUN, toy().plan)
    order = Order("serve", RUN, bytes(16), 1, request=one)
    kept.enter(order, Answer(bytes(16), RUN, 1, "served", one))
    for each in (kept, journal.Journal(log)):
        each.begin(RUN, toy().plan)
        each.check(replace(order, request=train, set_up_message=one))
        said = "round 1: 'train' comes with another set-up message than was served"
        with pytest.raises(RefusedError, match=said) as refusal:
            each.check(replace(order, request=train, set_up_message=two))
        assert refusal.value.code == "another set-up message"


def test_a_run_is_not_joined_where_its_lines_are_not_as_they_were_written(server, caplog):
    server.ask()
    server.ask(round=2)
    path = server.root / "1" / FILE
    path.write_bytes(path.read_bytes().replace(b'"round":1', b'"round":3'))
    with pytest.raises(
        InputError, match=r"of client 1 refuses this run: log refused\. The log of its site says why\.$"
    ):
        server.start()
    assert "the node's audit.jsonl, line 3: it is not what" in caplog.text


def test_a_request_that_is_no_message_is_refused_and_logged(server):
    found = server.runtime.exchange({1: b"garbage"}, {1: ENOUGH}, 5.0)[1]
    refused(found, "cannot serve request")
    assert server.decision_thresholds()[-1] == ("unknown", 0, "refused")


def test_every_kind_of_request_has_a_purpose():
    replies = {"error", "wait", "scored"}
    assert all(TABLE[kind].purpose for kind in {*wire.KINDS} - replies)


WHOLE = {
    "remembering": REMEMBERING,
    "rows": NODES,
    "probes": {"selector": {"name": "power_of_choice", "clients": 2}},
    "trials": {"selector": {"name": "fedmarl", "clients": 2}},
    "at clients": {"evaluation": {"at": "clients", "local_steps": True}},
}


@pytest.mark.parametrize("name", WHOLE)
def test_an_honest_run_is_served_as_without_a_journal(tmp_path, name):
    experiment = toy(**WHOLE[name])
    found = play(experiment, lambda plan, shards: local_runtime(plan, shards, tmp_path))
    assert found.digest == play(experiment).digest
    assert not any(row.failed for row in found.rows)
    lines = [line for path in tmp_path.glob(f"*/{FILE}") for line in logged(path)]
    assert {line["decision"] for line in lines} == {"sent"}
    assert all(line["purpose"] != "unknown" for line in lines)
    assert {word for line in lines for word in line.get("tells", ())} >= {"sizes", "losses", "update"}


SMOOTHED = {"data.name": "blocks", "data.nodes": 120, "data.clients": 3, "data.features": 8, "rounds": 2}


@pytest.mark.parametrize("refit", ["", "answers"])
def test_smoothing_asks_for_as_many_hops_as_the_recipe_says(tmp_path, refit):
    summary, sites = federated_files(
        "graft_node", {**SMOOTHED, "answers.refit": refit, "answers.smoothing": 3}, tmp_path
    )
    assert not any(summary["failures"].values())
    lines = logged(tmp_path / "nodes" / sites.names[0] / FILE)
    assert {line["decision"] for line in lines} == {"sent"}
    assert [line["kind"] for line in lines].count("hop") == 2
    assert lines[-1]["kind"] == "model"


CHANGES = {"data.users": 120, "data.items": 80, "data.count": 1500, "data.clients": 3, "rounds": 4}


@pytest.mark.parametrize("before", [False, True])
def test_a_run_that_is_taken_up_asks_for_its_rounds_again_and_ends_with_its_digest(tmp_path, before):
    changes = {**CHANGES, "checkpoint.every_seconds": 0}
    summary, sites = federated_files("fedacs", changes, tmp_path)
    found = runner.resume(tmp_path / "run", before=before, sites=sites)
    assert (found["digest"], found["failures"]) == (summary["digest"], summary["failures"])
    assert not any(found["failures"].values())


def failing(node, data):
    """Lose what client 1 answers to train in round 2."""
    answer = opened(Answer, data)
    with suppress(WireError):  # not every reply is a message
        if node == 101 and wire.place_of(answer.reply)[:2] == ("train", 2):
            return packed(replace(answer, status="refused", reply=b"cannot serve request"))
    return data


def test_a_round_in_which_a_client_failed_is_not_made_again(tmp_path, monkeypatch):
    """Made again without the failure, it would leave another model, and all would refuse the round after it."""
    changes = {**CHANGES, "selector.name": "all", "checkpoint.every_seconds": 1e6}
    made, init = [], LocalSites.__init__

    def losing(self, *given):
        init(self, *given)
        self.link.change = failing
        made.append(self)

    def kill(self, state, row):
        if row.round == 3:
            raise Killed

    monkeypatch.setattr(LocalSites, "__init__", losing)
    expected, _ = federated_files("fedacs", changes, tmp_path / "whole")
    assert expected["failures"]["training"] == 1
    with monkeypatch.context() as killing:
        killing.setattr(Silent, "after_round", kill)
        with pytest.raises(Killed):
            federated_files("fedacs", changes, tmp_path / "killed")
    made[-1].link.change = lambda node, data: data
    found = runner.resume(tmp_path / "killed" / "run", sites=made[-1])
    assert (found["digest"], found["failures"]) == (expected["digest"], expected["failures"])
