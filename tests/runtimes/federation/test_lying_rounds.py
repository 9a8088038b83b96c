"""A server that asks again and again, from memories and in rounds that it makes up, is told no more than once."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.engine.privacy.policy import Policy
from fedgraft.engine.privacy.secure_sum import SecureSum
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.table import TABLE
from fedgraft.errors import RefusedError
from fedgraft.experiment import job as jobs
from fedgraft.runtimes.federation import journal
from fedgraft.runtimes.federation.audit import FILE, AuditLog
from fedgraft.runtimes.federation.envelope import Answer, Order
from fedgraft.runtimes.federation.nodes_runtime import NodesRuntime
from fedgraft.runtimes.federation.places import SUM, Places
from fedgraft.testing.runs import toy
from fedgraft.wire import Message
from helpers.local_nodes import RUN, LocalLink, nodes_of

ENOUGH = 1 << 24
COMMON = {
    "data.clients": 3,
    "rounds": 2,
    "baselines": [],
    "privacy.delta": 1e-4,
    "privacy.shares": 3,
    "secure_sum.name": "clear",
}
RECIPES = {
    "graft_node_private": {
        **{"data.name": "blocks", "data.nodes": 90, "data.features": 4},
        **{"answers.smoothing": 1, "privacy.answers": 1.0},
    },
    "graft_rating_private": {"data.users": 30, "data.items": 30, "data.count": 200, "training.epochs": 1},
}


class Liar:
    """Asks client 1 of a recipe for whatever it likes, each time as if nothing had been asked before."""

    def __init__(self, root, recipe, **policy):
        experiment = jobs.load(recipe, {**COMMON, **RECIPES[recipe]})
        shards = experiment.data.load(experiment.seed)
        self.plan = replace(experiment.fitted(shards).plan, policy=Policy(delta=1e-4, **policy))
        self.shards, self.root = shards, root
        self.start()

    def start(self):
        self.nodes = nodes_of(self.plan, self.shards, self.root)
        self.runtime = NodesRuntime(LocalLink(self.nodes), RUN, len(self.shards), b"")
        self.runtime.wait_for_all()

    def request(self, kind, round, number=0.0, total=3.0, **detail):
        protocol = Protocol.of(self.plan)
        names, layout = protocol.request_names.get(kind, ()), protocol.request_layouts.get(kind)
        shapes = {spec.name: (spec.dtype, tuple(max(0, size) for size in spec.shape)) for spec in layout or ()}
        arrays = {name: np.full(shape, number).astype(dtype) for name, (dtype, shape) in shapes.items()}
        message = Message(kind, round, dict.fromkeys(names, total) | self.report(names), arrays or None, **detail)
        return wire.encode(message, layout, names)

    @staticmethod
    def report(names):
        return {"weight": 1.0} if "weight" in names else {}

    def ask(self, *given, **named):
        """The answer to a request from an empty memory."""
        self.runtime.restore({})
        return self.runtime.exchange({1: self.request(*given, **named)}, {1: ENOUGH}, 5.0)[1]

    def lines(self):
        lines = [json.loads(line) for line in (self.root / "1" / FILE).read_text().splitlines()]
        return [line for line in lines if "noise" in line or "answered" in line]


def code(answer):
    assert isinstance(answer, ClientFailed), "it was served"
    return answer.reason


@pytest.mark.parametrize("restarted", [False, True])
def test_noised_rounds_are_those_of_the_run_whatever_memory_the_server_names(tmp_path, restarted):
    """The attack: noise is made for two rounds, and an empty memory has no count of them."""
    server = Liar(tmp_path, "graft_node_private")
    answers = []
    for round in range(26):
        answers.append(server.ask("train", round))
        if restarted:
            server.start()
    assert [k for k, each in enumerate(answers) if isinstance(each, bytes)] == [1, 2]
    assert {code(each) for each in (answers[0], *answers[3:])} == {"round is none of the run"}
    assert [line["round"] for line in server.lines()] == [1, 2]


def test_more_rounds_in_the_server_s_recipe_buy_no_more_than_the_site_allows(tmp_path):
    server = Liar(tmp_path, "graft_node_private", epsilon=4.0)
    server.plan = replace(server.plan, rounds=25)
    for node in server.nodes.values():
        node.plan_of = lambda recipe: server.plan
        node._runs.clear()
    plan = server.plan
    answers = [server.ask("train", round) for round in range(1, 30)]
    assert {code(each) for each in answers[25:]} == {"round is none of the run"}
    assert server.lines()[-1]["epsilon"] <= 4.0 + 1e-9
    assert plan.policy.epsilon == 4.0


@pytest.mark.parametrize("restarted", [False, True])
def test_statistics_with_noise_are_published_once_in_a_run(tmp_path, restarted):
    """The attack: "publish" in rounds 0 to 9, each with noise of its own."""
    server = Liar(tmp_path, "graft_rating_private")
    answers = []
    for round in range(10):
        answers.append(server.ask("publish", round))
        if restarted:
            server.start()
    assert wire.kind_of(answers[0]) == "publish"
    assert {code(each) for each in answers[1:]} == {"round is none of the run"}
    assert code(server.ask("publish", 0, total=7.0)) == "round was served"
    assert len(server.lines()) == 1
    assert server.ask("publish", 0) == answers[0], "the same request has the same answer"
    assert len(server.lines()) == 1


def test_who_asks_for_sizes_in_many_rounds_is_told_once(tmp_path):
    server = Liar(tmp_path, "graft_node_private")
    assert wire.kind_of(server.ask("hello", 0)) == "hello"
    assert {code(server.ask("hello", round)) for round in (1, 2, 7)} == {"round is none of the run"}


def test_an_error_in_a_round_with_noise_is_its_answer(tmp_path):
    """The attack: an error tells something exactly, and the round is asked for again with another model."""
    server = Liar(tmp_path, "graft_node_private")
    first = server.ask("train", 1, np.nan)
    assert wire.kind_of(first) == "error"
    for _ in range(2):
        assert {code(server.ask("train", 1, number)) for number in (0.0, 1.0, np.inf)} == {"round was served"}
        assert server.ask("train", 1, np.nan) == first
        server.start()
    assert [line["round"] for line in server.lines()] == [1], "it is counted, once"
    assert wire.kind_of(server.ask("train", 2)) == "train"


def test_a_failure_of_the_node_in_a_round_with_noise_is_its_answer_too(tmp_path):
    server = Liar(tmp_path, "graft_node_private")
    client = server.nodes[1]._runs[RUN].client

    def short(*given):
        raise MemoryError("of 7 examples")

    serve, client.serve = client.serve, short
    assert code(server.ask("train", 1)) == "cannot serve request"
    client.serve = serve
    assert code(server.ask("train", 1, 1.0)) == "round was served"
    assert code(server.ask("train", 1)) == "answer has changed"
    assert [line["round"] for line in server.lines()] == [1]


def test_without_noise_and_masks_an_error_may_be_followed_by_an_answer(tmp_path):
    plan = toy().plan
    kept = journal.Journal(AuditLog(tmp_path / FILE))
    kept.begin(RUN, plan)
    one, two = (Order("serve", RUN, bytes(16), 1, request=wire.encode(Message("train", 1, progress=k))) for k in (1, 2))
    kept.enter(one, Answer(bytes(16), RUN, 1, "served", wire.encode(Message("error", 1, text="diverged"))))
    kept.check(two)


def test_no_two_kinds_of_messages_add_to_one_sum():
    """The attack: "publish" and "train", or "hop" and "tally", of one round share a pad, and differences cancel it."""
    plan = toy(
        secure_sum={"name": "secagg"}, codec={"name": "quantized", "scale": "agreed"}, evaluation={"at": "clients"}
    ).plan
    added = {name: row for name, row in TABLE.items() if row.added}
    numbers = [(name, number) for name in added for number in (range(9) if name == "hop" else (0,))]
    taken = [Places(plan).taken(name, 3, number)[1] for name, number in numbers]
    assert {place[:2] for place in taken} == {(SUM, 3)}
    assert len(set(taken)) == len(numbers)
    assert Places(replace(plan, secure_sum=SecureSum("clear"))).taken("train", 3, 0) == [("train", 3, 0)]


def test_one_order_is_admitted_for_each_masked_sum(tmp_path):
    plan = toy(
        secure_sum={"name": "secagg"}, codec={"name": "quantized", "scale": "agreed"}, evaluation={"at": "clients"}
    ).plan
    kept = journal.Journal(AuditLog(tmp_path / FILE))
    kept.begin(RUN, plan)

    def order(kind, round, progress=0):
        return Order("serve", RUN, bytes(16), 1, request=wire.encode(Message(kind, round, progress=progress)))

    kept.enter(order("train", 1), Answer(bytes(16), RUN, 1, "served", wire.encode(Message("train", 1))))
    for each in (kept, journal.Journal(AuditLog(tmp_path / FILE))):
        each.begin(RUN, plan)
        with pytest.raises(RefusedError, match="round 1 was served: 'train'") as refusal:
            each.check(order("train", 1, progress=1))
        assert refusal.value.code == "round was served"
        each.check(order("train", 1))
        each.check(order("train", 2))
        each.check(order("evaluate", 1))
