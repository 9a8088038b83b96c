"""A server that has two cohorts, which differ by one client, train at one model would read that client's update.

A client marks in its memory at which order it has revealed shares. At sites the server names the memory; the log
has the orders, too.
"""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.engine.privacy.secure_sum import TOTAL
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.errors import AllClientsFailedError
from fedgraft.experiment.running.loops import loop_of
from fedgraft.runtimes.federation.audit import FILE, read
from fedgraft.runtimes.federation.envelope import Order, opened, packed
from fedgraft.runtimes.federation.nodes_runtime import NodesRuntime
from fedgraft.runtimes.federation.places import RevealedOrders
from fedgraft.testing.runs import toy
from helpers.local_nodes import RUN, LocalLink, nodes_of

SIGNED = {
    "secure_sum": {"name": "secagg", "signed": True},
    "codec": {"name": "quantized", "scale": "agreed", "bits": 5, "rounding": "stochastic"},
    "evaluation": {"at": "clients", "every": 9},
}


class Liar(LocalLink):
    """Sends the order of round 1 in round 2, to clients that are to go on from an empty memory; `hair` moves it."""

    def __init__(self, nodes, plan, hair=0.0):
        super().__init__(nodes)
        self.protocol, self.hair, self.first = Protocol.of(plan), hair, {}
        self.common = [spec.name for spec in self.protocol.rows["train"].added.common(plan)]

    def send(self, node, content):
        order = opened(Order, content)
        if order.kind == "serve":
            kind, round, _ = wire.place_of(order.request)
            if kind == "train":
                order = replace(order, request=self.told(node, round, order.request))
            elif (kind, round) == ("shares", 2):
                order = replace(order, memory=b"")
        return super().send(node, packed(order))

    def told(self, node, round, request):
        layouts, names = self.protocol.request_layouts, self.protocol.request_names
        message = wire.decode(request, layouts, names)
        if round == 1:
            self.first[node] = message
            return request
        old = self.first[node]
        alike = {name: np.array(old.arrays[name]) for name in self.common}
        if self.hair:
            scales = alike["sum.scales"]
            alike["sum.scales"] = np.nextafter(scales, np.float32(2) * scales, dtype=np.float32)
        arrays = {name: alike.get(name, array) for name, array in message.arrays.items()}
        report = {**message.report, TOTAL: old.report[TOTAL]}
        again = wire.Message("train", 2, report, arrays, progress=message.progress)
        return wire.encode(again, layouts["train"], names["train"])


def asked_again(root, hair=0.0):
    """Decisions of client 1 on the orders to train of both rounds."""
    experiment = toy(rounds=2, **SIGNED)
    shards = experiment.data.load(experiment.seed)
    experiment = experiment.fitted(shards)
    link = Liar(nodes_of(experiment.plan, shards, root), experiment.plan, hair)
    runtime = NodesRuntime(link, RUN, len(shards), b"")
    runtime.wait_for_all()
    loop = loop_of(experiment, runtime)
    with suppress(AllClientsFailedError):
        loop.run(loop.start(), lambda state, row: None)
    lines = [line for line in read(root / "1" / FILE) if line["kind"] == "train"]
    return experiment.plan, {line["round"]: line for line in lines}


def test_an_older_memory_does_not_make_a_node_train_at_a_model_at_which_it_has_revealed_shares(tmp_path):
    _, lines = asked_again(tmp_path)
    assert lines[1]["decision"] == "sent"
    assert len(lines[1]["order"]) == 64
    assert (lines[2]["decision"], lines[2]["code"]) == ("refused", "beyond a limit of its site")
    assert "shares were revealed at this model and these scales" in lines[2]["why"]


def test_a_model_that_differs_by_a_hair_is_another_one(tmp_path):
    """This is no bound: noise is."""
    _, lines = asked_again(tmp_path, hair=1.0)
    assert [lines[round]["decision"] for round in (1, 2)] == ["sent", "sent"]
    assert lines[1]["order"] != lines[2]["order"]


@pytest.mark.parametrize("segment", [0, 1])
def test_shares_of_a_sum_of_updates_alone_count(segment):
    plan = toy(**SIGNED).plan
    known = RevealedOrders(plan)
    known.note([{"kind": "train", "round": 3, "reply": "train", "order": "ab"}])
    known.note([{"kind": "unmask", "round": 3, "number": segment, "reply": "unmask"}])
    assert known._revealed == ({"ab"} if segment == 0 else set())
