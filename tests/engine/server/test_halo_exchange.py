"""Rounds in segments: who waits for rows, who is sent which, and what it costs."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.engine.client.client import Client
from fedgraft.engine.client.client_memory import packed
from fedgraft.engine.halo_codec import HaloCodec, slots_of
from fedgraft.engine.plan import HALO
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.table import TABLE
from fedgraft.engine.server.ledger import DIRECTIONS, PURPOSES
from fedgraft.experiment.recipes.codec_sections import build_codec
from fedgraft.wire.layouts import Layout, part_of
from helpers.node_runs import OFTEN, small, store_of
from helpers.segmented_rounds import everywhere, often, opened
from helpers.toy_runs import length, looped, run


def rows_of(plan, message):
    """The rows of nodes in an opened message."""
    return HaloCodec(plan).decode(part_of(message.arrays, plan.coded_halo_layout))


# --- a round ----------------------------------------------------------------------------------------------------------


def test_clients_wait_together_and_go_on_together():
    experiment, shards = often(rounds=1)
    state, (row,), runtime = run(everywhere(experiment), shards=shards)
    kinds = [(kind, client) for kind, _, client, _ in runtime.sent if kind in ("train", "rows")]
    assert kinds == [(kind, client) for kind in ("train", *["rows"] * 4) for client in range(4)]
    plan = experiment.plan
    assert plan.refreshes == 5  # of which the first needs no message of its own
    answers = [opened(plan, m).kind for kind, _, _, m in runtime.received if kind in ("train", "rows")]
    assert answers == ["wait"] * 16 + ["train"] * 4
    assert row.failed == {}
    assert state.exchange.halo_store["time"] == 20
    slow = experiment.with_changes({"clock.latency_seconds": 1000.0})
    waited, _, _ = run(everywhere(slow), shards=shards)
    latency = experiment.settings.clock.latency_seconds
    assert waited.simulated_seconds - state.simulated_seconds == pytest.approx(5 * (1000.0 - latency))


def test_what_a_client_is_sent_is_what_the_others_last_pushed():
    experiment, shards = often(rounds=2)
    plan, store = experiment.plan, store_of(experiment.plan.task, shards)
    halos = [list(zip(shard.halo_owner, shard.halo_place, strict=True)) for shard in shards]
    pushed, known = {}, [{} for _ in shards]
    _, _, runtime = run(everywhere(experiment), shards=shards)
    sent = [each for each in runtime.sent if each[0] in ("train", "rows")]
    received = [each for each in runtime.received if each[0] in ("train", "rows")]
    for segment in range(0, len(sent), 4):
        for _, _, client, message in sent[segment : segment + 4]:
            (pulled,) = rows_of(plan, opened(plan, message, up=False))
            for slot, row in zip(pulled.slot, pulled.rows, strict=True):
                known[client][halos[client][slot]] = row.tolist()
            wanted = {address: pushed[address] for address in halos[client] if address in pushed}
            assert known[client] == wanted
        for _, _, client, message in received[segment : segment + 4]:
            (own,) = rows_of(plan, opened(plan, message))
            assert np.isin(own.slot, store.needed(client)).all()
            pushed |= {(client, int(k)): row.tolist() for k, row in zip(own.slot, own.rows, strict=True)}
    assert len(pushed) == sum(len(store.needed(client)) for client in range(4))


def test_only_what_changed_is_sent_again():
    experiment, shards = often(rounds=1, sampler__share=0.2, sampler__batches=3)
    plan = experiment.plan
    _, _, runtime = run(everywhere(experiment), shards=shards)
    rows = [len(rows_of(plan, opened(plan, m, up=False))[0].slot) for kind, _, _, m in runtime.sent if kind == "rows"]
    halo = [shard.halo for shard in shards]
    assert rows[:4] == halo, "all that was looked at"
    assert all(0 < count < most / 2 for count, most in zip(rows[4:], halo * 3, strict=True)), "what few steps moved"


def test_rows_that_are_asked_for_are_sent_whether_they_changed_or_not():
    experiment, shards = small("fedall", rounds=2, exchange__neighbours=2, sampler__batches=2, training__epochs=2)
    plan = experiment.plan
    halos = [list(zip(shard.halo_owner, shard.halo_place, strict=True)) for shard in shards]
    _, _, runtime = run(everywhere(experiment), shards=shards)
    pushed, asked, twice = set(), {}, 0
    for (kind, _, client, request), (_, _, _, reply) in zip(runtime.sent, runtime.received, strict=True):
        if kind not in ("train", "rows"):
            continue
        (pulled,) = rows_of(plan, opened(plan, request, up=False))
        if kind == "train":
            assert len(pulled.slot) == 0, "nobody has asked yet"
        else:
            wanted = [slot for slot in asked[client][-1] if halos[client][slot] in pushed]
            assert pulled.slot.tolist() == wanted
            twice += sum(len(np.intersect1d(each, wanted)) for each in asked[client][:-1])
        answer = opened(plan, reply)
        if answer.kind == "wait":
            slots = slots_of(answer.arrays[f"{HALO}asked.0"])
            assert len(slots) > 0
            asked.setdefault(client, []).append(slots.tolist())
        (own,) = rows_of(plan, answer)
        pushed |= {(client, int(k)) for k in own.slot}
    assert twice > 0


@pytest.mark.parametrize("recipe", ["fedais", "fedall", "fedpns"])
def test_a_round_that_is_lost_is_served_anew_to_the_same_bits(recipe):
    changes = OFTEN if recipe == "fedais" else {"exchange__neighbours": 2, "training__epochs": 3}
    experiment, shards = small(recipe, rounds=2, training__optimizer="adam", **changes)
    rounds = {}
    with looped(everywhere(experiment), shards=shards) as (loop, runtime):
        serve = runtime.inner._inline.serve

        def noted(client, request, memory, scored=b"", set_up=b""):
            served, kind = serve(client, request, memory, scored, set_up), wire.kind_of(request)
            if kind in ("train", "rows"):
                number = opened(experiment.plan, request, up=False).round
                rounds.setdefault((number, client), []).append((request, memory, set_up, served))
                assert served.waits == (wire.kind_of(served.reply) == "wait")
                assert not served.waits or served.memory is memory, "nothing is remembered of a round that waits"
            return served

        runtime.inner._inline.serve = noted
        loop.run(loop.start(), lambda state, row: None)
    assert len(rounds) == 8
    assert max(map(len, rounds.values())) > 2
    for (_, client), steps in rounds.items():
        fresh = Client(experiment.plan, dict(enumerate(shards)))
        for request, memory, set_up, served in steps:
            again = fresh.serve(client, request, memory, set_up=set_up)
            assert (again.reply, again.waits, again.flops) == (served.reply, served.waits, served.flops)
        assert packed(again.memory) == packed(served.memory)


@pytest.mark.parametrize("recipe", ["fedais", pytest.param("fedall", marks=pytest.mark.slow), "fedlocal"])
def test_a_score_is_the_same_whoever_relayed_and_whatever_is_left_of_it(recipe):
    changes = {} if recipe == "fedlocal" else {"sharing__name": "fedper", "model__hidden": [6, 5, 4]}
    experiment, shards = small(recipe, rounds=4, **changes)
    kinds = []
    with looped(everywhere(experiment), shards=shards) as (loop, runtime):
        inner = runtime.inner
        servants = inner._inline, Client(experiment.plan, dict(enumerate(shards)))

        def serve(client, request, memory, scored=b"", set_up=b"", first=servants[0].serve):
            if not scored:
                return first(client, request, memory, scored, set_up)
            message = wire.decode(
                request, Protocol.of(experiment.plan).request_layouts, Protocol.of(experiment.plan).request_names
            )
            kinds.append(message.kind)
            # By turns, for every other client the one relays and the other measures, which relayed in the last round.
            picked = (message.round + (client % 2 and message.kind == "measure")) % 2
            answer = (servants[1].serve if picked else first)(client, request, memory, scored, set_up)
            fresh = Client(experiment.plan, dict(enumerate(shards)))
            assert answer.reply == fresh.serve(client, request, memory, scored, set_up).reply
            return answer

        inner._inline.serve = serve
        state = loop.run(loop.start(), lambda state, row: None)
    assert state.clients.failing == {}
    assert set(kinds) == ({"measure"} if recipe == "fedlocal" else {"relay", "measure"})


def test_rows_tell_how_often_a_round_was_taken_up():
    experiment, shards = often(rounds=1)
    _, _, runtime = run(everywhere(experiment), shards=shards)
    segments = [opened(experiment.plan, m, up=False).segment for kind, _, _, m in runtime.sent if kind == "rows"]
    assert segments == [k for k in range(4) for _ in range(4)]


# --- what it costs ----------------------------------------------------------------------------------------------------


def rows_bytes(plan, message, up):
    """Bytes of a message's arrays whose names say that they are of nodes."""
    if isinstance(message, ClientFailed):
        return 0
    kind = opened(plan, message, up)
    layout = (Protocol.of(plan).reply_layouts if up else Protocol.of(plan).request_layouts).get(kind.kind) or Layout(())
    return wire.arrays_bytes(kind.arrays or {}, Layout(tuple(s for s in layout if s.name.startswith(HALO))))


@pytest.mark.parametrize("rows", ["identity", {"name": "quantized", "bits": 4}])
@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("fedais", OFTEN),
        ("fedais1", {}),
        ("fedpns", {}),
        ("fedall", {"task__head": "convolution"}),
        ("fedrandom", {}),
        ("fedlocal", {}),
        ("fedais", {**OFTEN, "evaluation.at": "clients", "codec": "float16"}),
    ],
)
def test_the_ledger_is_the_length_of_all_messages_and_rows_are_its_halo(recipe, changes, rows):
    experiment, shards = small(recipe, rounds=2, **changes)
    if experiment.plan.halo:
        experiment = replace(experiment, plan=replace(experiment.plan, rows=build_codec("rows", rows)))
    plan, expected = experiment.plan, dict.fromkeys((*DIRECTIONS, *PURPOSES), 0)
    with looped(experiment, shards=shards) as (loop, runtime):
        state = loop.run(loop.start(), lambda state, row: None)
    if not plan.connected:
        assert (loop.ledger.total, recipe) == (0, "fedlocal")
        return
    for direction, messages in (("down", runtime.sent), ("up", runtime.received)):
        for kind, _, _, message in messages:
            header, halo = wire.header_bytes(message), rows_bytes(plan, message, direction == "up")
            purpose = TABLE[opened(plan, message).kind if direction == "up" else kind].purpose
            expected[direction] += length(message)
            expected["header"] += header
            expected["halo"] += halo
            expected[purpose] += length(message) - header - halo
    assert loop.ledger.totals == expected == state.bytes
    entries = loop.ledger.drain()
    assert sum(entry.bytes for entry in entries) == loop.ledger.total
    messages = [*runtime.sent, *runtime.received]
    for at in ((round, client) for round in range(3) for client in range(4)):
        moved = sum(length(m) for _, round, client, m in messages if (round, client) == at)
        assert sum(entry.bytes for entry in entries if (entry.round, entry.client) == at) == moved
    assert (expected["halo"] > 0) == bool(plan.halo)


@pytest.mark.parametrize("rows", ["identity", {"name": "quantized", "bits": 4}, {"name": "sparse", "share": 0.5}])
@pytest.mark.parametrize(("recipe", "changes"), [("fedais", OFTEN), ("fedall", {}), ("fedpns", {}), ("fedais", {})])
def test_no_round_costs_a_client_more_than_was_said_before(recipe, changes, rows):
    experiment, shards = small(recipe, rounds=2, **changes)
    experiment = replace(experiment, plan=replace(experiment.plan, rows=build_codec("rows", rows)))
    with looped(everywhere(experiment), shards=shards) as (loop, runtime):
        loop.run(loop.start(), lambda state, row: None)
        most = [loop._messenger.most_training_bytes(client).total for client in range(4)]
    messages = [*runtime.sent, *runtime.received]
    spent = {(r, c): sum(length(m) for _, q, k, m in messages if (q, k) == (r, c)) for r in (1, 2) for c in range(4)}
    assert all(0 < cost <= most[client] for (_, client), cost in spent.items()), (spent, most)


@pytest.mark.parametrize(
    "budget", [60_000, pytest.param(90_000, marks=pytest.mark.slow), pytest.param(200_000, marks=pytest.mark.slow)]
)
def test_a_budget_is_kept_however_often_clients_wait(budget):
    experiment, shards = often(rounds=50, budget__bytes=budget)
    state, rows, _ = run(experiment, shards=shards)
    assert rows
    assert state.finished == "budget"
    assert 0.4 * budget < state.bytes["down"] + state.bytes["up"] <= budget
