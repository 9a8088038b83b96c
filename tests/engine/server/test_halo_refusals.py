"""Halo rows that cannot be taken, and clients that pause too often or fail in mid-round."""

import re
from dataclasses import replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.contracts.values import HaloRows
from fedgraft.engine.client.client import Client
from fedgraft.engine.halo_codec import HaloCodec, bits_of
from fedgraft.engine.plan import HALO
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.wire import Message
from fedgraft.wire.layouts import part_of
from helpers.node_runs import store_of
from helpers.segmented_rounds import everywhere, often, opened, replies_of
from helpers.toy_runs import looped, run


def rows_of(plan, message):
    """The rows of nodes in an opened message."""
    return HaloCodec(plan).decode(part_of(message.arrays, plan.coded_halo_layout))


def waiting(plan, round, rows=()):
    """A client's word that it waits, with the rows that it pushes."""
    return wire.encode(Message("wait", round, arrays=HaloCodec(plan).raw(list(rows))), *replies_of(plan, "wait"))


def test_a_client_that_waits_too_often_is_refused():
    experiment, shards = often(rounds=1)
    plan = experiment.plan

    def tamper(kind, round, client, reply):
        return waiting(plan, round) if kind in ("train", "rows") and client == 1 else reply

    state, (row,), runtime = run(everywhere(experiment), tamper, shards)
    assert row.failed == {1: "waited for rows more than 5 times in a round"}
    assert [client for kind, _, client, _ in runtime.sent if kind == "rows"].count(1) == plan.refreshes == 5
    assert [c for kind, _, c, _ in runtime.sent if kind == "rows"].count(0) == 4
    assert state.merges == 1, "the others' updates are merged"


def nowhere(shards, task):
    """A node of client 1 that nobody needs."""
    needed = store_of(task, shards).needed(1)
    return next(node for node in range(shards[1].own + 8) if node not in needed)


@pytest.mark.parametrize("kind", ["train", "rows"])
@pytest.mark.parametrize("beyond", [False, True])
def test_rows_of_nowhere_are_refused(kind, beyond):
    experiment, shards = often(rounds=1)
    plan = experiment.plan
    node = 300 if beyond else nowhere(shards, plan.task)

    def tamper(asked, round, client, reply):
        if (asked, client) != (kind, 1):
            return reply
        rows = np.full((1, plan.task.exchanged.halo_widths[0]), 77.0, np.float32)
        return waiting(plan, round, [HaloRows(np.array([node]), rows)])

    state, (row,), _ = run(everywhere(experiment), tamper, shards)
    assert row.failed == {1: f"rows of nodes that nobody needs, among {node}..{node}"}
    assert np.isfinite(np.concatenate([rows.ravel() for rows in state.exchange.halo_store["rows"]])).all()
    assert not (np.concatenate([rows.ravel() for rows in state.exchange.halo_store["rows"]]) == 77.0).any()


@pytest.mark.parametrize(("value", "reason"), [(np.nan, "a row is not finite"), (np.inf, "a row is not finite")])
def test_rows_that_are_not_finite_are_refused(value, reason):
    experiment, shards = often(rounds=1)
    plan = experiment.plan

    def tamper(kind, round, client, reply):
        if client != 2 or kind not in ("train", "rows"):
            return reply
        message = opened(plan, reply)
        arrays = {name: array.copy() for name, array in message.arrays.items()}
        arrays[f"{HALO}rows.0"][:1] = value
        return wire.encode(replace(message, arrays=arrays), *replies_of(plan, message.kind))

    state, (row,), _ = run(everywhere(experiment), tamper, shards)
    assert row.failed == {2: reason}
    assert all(np.isfinite(rows).all() for rows in state.exchange.halo_store["rows"])


def test_a_client_that_failed_in_mid_round_is_sent_everything_again():
    experiment, shards = often(rounds=3)
    plan = experiment.plan

    def tamper(kind, round, client, reply):
        return ClientFailed("gone", 7) if (kind, round, client) == ("rows", 2, 3) else reply

    state, rows, runtime = run(everywhere(experiment), tamper, shards)
    assert [row.failed for row in rows] == [{}, {3: "gone"}, {}]
    first = {
        (round, client): len(rows_of(plan, opened(plan, m, up=False))[0].slot)
        for kind, round, client, m in runtime.sent
        if kind == "train"
    }
    assert first[3, 3] == shards[3].halo, "all of its halo"
    assert all(0 < first[3, client] < shards[client].halo for client in range(3)), "what others' last steps moved"
    assert state.clients.failing == {}


def test_a_client_whose_addresses_lead_nowhere_takes_no_part():
    experiment, shards = often(rounds=1)
    plan = experiment.plan

    def tamper(kind, round, client, reply):
        if kind != "hello" or client != 2:
            return reply
        message = opened(plan, reply)
        place = message.arrays["place"].copy()
        place[-1] = 5_000
        return wire.encode(replace(message, arrays={**message.arrays, "place": place}), *replies_of(plan, "hello"))

    with looped(everywhere(experiment, (0, 1, 3)), tamper, shards) as (loop, runtime):
        state = loop.run(loop.start(), lambda state, row: None)
    assert state.clients.failing == {"2": "client 2 needs node 5000 of client 3, where there is none"}
    assert state.examples[2] == 0
    assert [client for kind, _, client, _ in runtime.sent if kind == "statistics"] == [0, 1, 3]
    assert [len(halo["owner"]) for halo in state.exchange.halos] == [shards[0].halo, shards[1].halo, 0, shards[3].halo]


def test_rows_that_nobody_waits_for_are_an_error_of_the_client():
    experiment, shards = often()
    plan = experiment.plan
    request = wire.encode(Message("rows", 1, arrays=HaloCodec(plan).raw([])), plan.coded_halo_layout)
    served = Client(plan, dict(enumerate(shards))).serve(0, request, b"")
    assert served.memory == b""
    assert served.reason.startswith("sent rows that it does not wait for")


@pytest.mark.parametrize("kind", ["hello", "train"])
def test_any_other_request_ends_a_round_that_waits(kind):
    experiment, shards = often()
    plan = experiment.plan
    report, arrays = dict.fromkeys(plan.guidance, 1.0), {**plan.first, **HaloCodec(plan).raw([])}
    train = wire.encode(Message("train", 1, report, arrays), Protocol.of(plan).request_layouts["train"], plan.guidance)
    rows = wire.encode(Message("rows", 1, arrays=HaloCodec(plan).raw([])), plan.coded_halo_layout)
    client = Client(plan, dict(enumerate(shards)))
    assert client.serve(0, train, b"").waits
    client.serve(1, wire.encode(Message("hello", 0)), b"")
    assert opened(plan, client.serve(0, rows, b"").reply).kind == "wait", "what others are asked does not"
    other = wire.encode(Message("hello", 0)) if kind == "hello" else wire.encode(Message("train", 1))
    client.serve(0, other, b"")
    assert client.serve(0, rows, b"").reason.startswith("sent rows that it does not wait for")


# --- scoring ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relayed", "reason"),
    [
        (lambda plan, round, layer: ClientFailed("gone"), "gone"),
        (lambda plan, round, layer: b"", "at least 20 bytes"),
        (lambda plan, round, layer: relay_of(plan, round, layer, 3, 2), "2 rows for 3 nodes"),
        (lambda plan, round, layer: relay_of(plan, round, layer, 300, 300), "rows of nodes that nobody needs"),
        (lambda plan, round, layer: relay_of(plan, round, layer, 1, 1, np.nan), "a row is not finite"),
    ],
)
def test_a_client_that_cannot_relay_its_states_leaves_nobody_a_score(relayed, reason):
    """The others' scores would be those of a graph without its nodes."""
    experiment, shards = often(rounds=2)
    asked = []
    with looped(everywhere(experiment), shards=shards) as (loop, runtime):
        measure = runtime.inner.measure

        def tampered(requests, models, deadline_seconds):
            replies = measure(requests, models, deadline_seconds)
            message = wire.decode(requests[1], Protocol.of(experiment.plan).request_layouts)
            asked.append((message.round, message.kind))
            if message.kind == "relay" and message.round == 1:
                replies[1] = relayed(experiment.plan, 1, message.layer)
            return replies

        runtime.inner.measure = tampered
        state, rows = loop.start(), []
        loop.run(state, lambda state, row: rows.append(row))
    assert [sorted(row.failed) for row in rows] == [[1], []]
    assert re.search(f"^scoring: .*{reason}", rows[0].failed[1])
    assert [row.validation is None for row in rows] == [True, False]
    assert [kind for round, kind in asked if round == 1] == ["relay"], "nobody is measured"
    assert state.clients.failures["scoring"] == 1
    assert rows[1].validation == run(everywhere(experiment), shards=shards)[1][1].validation


def relay_of(plan, round, layer, nodes, rows, value=0.5):
    """A relay of so many rows of the first nodes."""
    arrays = HaloCodec(plan).raw([])
    arrays[f"{HALO}slots.{layer}"] = bits_of(np.arange(nodes))
    arrays[f"{HALO}rows.{layer}"] = np.full((rows, plan.task.exchanged.halo_widths[layer]), value, np.float32)
    return wire.encode(Message("relay", round, arrays=arrays), Protocol.of(plan).reply_layouts["relay"])
