"""Rounds in segments: who waits for rows, who is sent which, what it costs, and who is refused."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.contracts.values import Mail
from fedgraft.engine.client.client import Client
from fedgraft.engine.halo_codec import Courier, part_of, slots_of
from fedgraft.engine.plan import MAIL
from fedgraft.engine.server.exchange import PURPOSES as PURPOSE_OF
from fedgraft.engine.server.ledger import DIRECTIONS, PURPOSES
from fedgraft.experiment.codec_sections import build_codec
from fedgraft.wire import Message
from fedgraft.wire.layouts import Layout
from helpers.node_runs import OFTEN, mailbox_of, small
from helpers.toy_methods import Scripted
from helpers.toy_runs import looped, run, same


def often(**changes):
    """FedAIS whose clients wait four times in a round."""
    return small("fedais", **{**OFTEN, **changes})


def everywhere(experiment, *cohorts):
    """The same experiment with these cohorts, one a round; by default everybody in every round."""
    clients = tuple(range(4))
    cohorts = cohorts or (clients,) * experiment.stopping.rounds
    return replace(experiment, selector=Scripted(cohorts))


def replies_of(plan, kind):
    return plan.reply_layouts[kind], plan.names(kind)


def opened(plan, message, up=True):
    """A message as its receiver reads it."""
    layouts = plan.reply_layouts if up else plan.request_layouts
    names = {kind: plan.names(kind) for kind in wire.KINDS} if up else plan.told
    return wire.decode(message, layouts, names)


def rows_of(plan, message):
    """The rows of nodes in an opened message."""
    return Courier(plan).decode(part_of(message.arrays, plan.coded_mail_layout))


def waiting(plan, round, mail=()):
    """A client's word that it waits."""
    return wire.encode(Message("wait", round, arrays=Courier(plan).raw(list(mail))), *replies_of(plan, "wait"))


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
    assert state.mailbox["time"] == 20
    slow = experiment.with_changes({"clock.latency_seconds": 1000.0})
    waited, _, _ = run(everywhere(slow), shards=shards)
    latency = experiment.clock.latency_seconds
    assert waited.simulated_seconds - state.simulated_seconds == pytest.approx(5 * (1000.0 - latency))


def test_what_a_client_is_sent_is_what_the_others_last_told():
    experiment, shards = often(rounds=2)
    plan, box = experiment.plan, mailbox_of(experiment.plan.task, shards)
    halos = [list(zip(shard.halo_owner, shard.halo_place, strict=True)) for shard in shards]
    told, known = {}, [{} for _ in shards]
    _, _, runtime = run(everywhere(experiment), shards=shards)
    sent = [each for each in runtime.sent if each[0] in ("train", "rows")]
    received = [each for each in runtime.received if each[0] in ("train", "rows")]
    for segment in range(0, len(sent), 4):
        for _, _, client, message in sent[segment : segment + 4]:
            (mail,) = rows_of(plan, opened(plan, message, up=False))
            for slot, row in zip(mail.slot, mail.rows, strict=True):
                known[client][halos[client][slot]] = row.tolist()
            wanted = {address: told[address] for address in halos[client] if address in told}
            assert known[client] == wanted
        for _, _, client, message in received[segment : segment + 4]:
            (mail,) = rows_of(plan, opened(plan, message))
            assert np.isin(mail.slot, box.needed(client)).all()
            told |= {(client, int(k)): row.tolist() for k, row in zip(mail.slot, mail.rows, strict=True)}
    assert len(told) == sum(len(box.needed(client)) for client in range(4))


def test_only_what_changed_is_sent_again():
    experiment, shards = often(rounds=1, sampler__share=0.2, sampler__batches=3)
    plan = experiment.plan
    _, _, runtime = run(everywhere(experiment), shards=shards)
    rows = [len(rows_of(plan, opened(plan, m, up=False))[0].slot) for kind, _, _, m in runtime.sent if kind == "rows"]
    halo = [shard.halo for shard in shards]
    assert rows[:4] == halo, "all that was looked at"
    assert all(0 < count < most / 2 for count, most in zip(rows[4:], halo * 3, strict=True)), "what few steps moved"


def test_rows_that_are_asked_for_are_sent_whether_they_changed_or_not():
    experiment, shards = small("fedall", rounds=2, task__neighbours=2, sampler__batches=2, training__epochs=2)
    plan = experiment.plan
    halos = [list(zip(shard.halo_owner, shard.halo_place, strict=True)) for shard in shards]
    _, _, runtime = run(everywhere(experiment), shards=shards)
    told, asked, twice = {}, {}, 0
    for (kind, _, client, request), (_, _, _, reply) in zip(runtime.sent, runtime.received, strict=True):
        if kind not in ("train", "rows"):
            continue
        (mail,) = rows_of(plan, opened(plan, request, up=False))
        if kind == "train":
            assert len(mail.slot) == 0, "nobody has asked yet"
        else:
            wanted = [slot for slot in asked[client][-1] if halos[client][slot] in told]
            assert mail.slot.tolist() == wanted
            twice += sum(len(np.intersect1d(each, wanted)) for each in asked[client][:-1])
        answer = opened(plan, reply)
        if answer.kind == "wait":
            slots = slots_of(answer.arrays[f"{MAIL}asked.0"])
            assert len(slots) > 0
            asked.setdefault(client, []).append(slots.tolist())
        (mail,) = rows_of(plan, answer)
        told |= {(client, int(k)): 1 for k in mail.slot}
    assert twice > 0


@pytest.mark.parametrize("recipe", ["fedais", "fedall", "fedpns"])
def test_a_round_kept_in_memory_ends_as_one_that_is_kept_alive(recipe):
    changes = OFTEN if recipe == "fedais" else {"task__neighbours": 2}
    experiment, shards = small(recipe, rounds=2, training__optimizer="adam", **changes)
    ended = []
    for holds in (True, False):
        with looped(everywhere(experiment), shards=shards) as (loop, runtime):
            runtime.inner._inline = Client(experiment.plan, dict(enumerate(shards)), holds=holds)
            state = loop.run(loop.start(), lambda state, row: None)
            memories = dict(runtime.memories(changed=False))
            ended.append((state.to_tree() | {"seconds": 0, "curve": 0}, memories, runtime.received))
    assert same(*(each[0] for each in ended))
    assert ended[0][1:] == ended[1][1:]


@pytest.mark.parametrize("recipe", ["fedais", "fedall", "fedlocal"])
def test_a_score_is_the_same_whoever_relayed_and_whatever_is_left_of_it(recipe):
    changes = {} if recipe == "fedlocal" else {"sharing__name": "fedper", "model__hidden": [6, 5, 4]}
    experiment, shards = small(recipe, rounds=4, **changes)
    kinds = []
    with looped(everywhere(experiment), shards=shards) as (loop, runtime):
        inner = runtime.inner
        servants = inner._inline, Client(experiment.plan, dict(enumerate(shards)), holds=True)

        def serve(client, request, memory, scored=b"", told=b"", first=servants[0].serve):
            if not scored:
                return first(client, request, memory, scored, told)
            message = wire.decode(request, experiment.plan.request_layouts, experiment.plan.told)
            kinds.append(message.kind)
            # By turns, for every other client the one relays and the other measures, which relayed in the last round.
            picked = (message.round + (client % 2 and message.kind == "measure")) % 2
            known = inner._told.get(client, b"")
            answer = (servants[1].serve if picked else first)(client, request, memory, scored, known)
            fresh = Client(experiment.plan, dict(enumerate(shards)))
            assert answer[0] == fresh.serve(client, request, memory, scored, known)[0]
            return answer

        inner._inline.serve = serve
        state = loop.run(loop.start(), lambda state, row: None)
    assert state.failing == {}
    assert set(kinds) == ({"measure"} if recipe == "fedlocal" else {"relay", "measure"})


# --- what it costs ----------------------------------------------------------------------------------------------------


def length(reply):
    return reply.bytes_up if isinstance(reply, ClientFailed) else len(reply)


def rows_bytes(plan, message, up):
    """Bytes of a message's arrays whose names say that they are of nodes."""
    if isinstance(message, ClientFailed):
        return 0
    kind = opened(plan, message, up)
    layout = (plan.reply_layouts if up else plan.request_layouts).get(kind.kind) or Layout(())
    return wire.arrays_bytes(kind.arrays or {}, Layout(tuple(s for s in layout if s.name.startswith(MAIL))))


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
    if experiment.plan.task.tables:
        experiment = replace(experiment, plan=replace(experiment.plan, rows=build_codec("rows", rows)))
    plan, expected = experiment.plan, dict.fromkeys((*DIRECTIONS, *PURPOSES), 0)
    with looped(experiment, shards=shards) as (loop, runtime):
        state = loop.run(loop.start(), lambda state, row: None)
    if plan.sharing.alone:
        assert (loop.ledger.total, recipe) == (0, "fedlocal")
        return
    for direction, messages in (("down", runtime.sent), ("up", runtime.received)):
        for kind, _, _, message in messages:
            header, halo = wire.header_bytes(message), rows_bytes(plan, message, direction == "up")
            purpose = PURPOSE_OF[opened(plan, message).kind if direction == "up" else kind]
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
    assert (expected["halo"] > 0) == bool(plan.task.tables)


@pytest.mark.parametrize("rows", ["identity", {"name": "quantized", "bits": 4}, {"name": "sparse", "share": 0.5}])
@pytest.mark.parametrize(("recipe", "changes"), [("fedais", OFTEN), ("fedall", {}), ("fedpns", {}), ("fedais", {})])
def test_no_round_costs_a_client_more_than_was_said_before(recipe, changes, rows):
    experiment, shards = small(recipe, rounds=2, **changes)
    experiment = replace(experiment, plan=replace(experiment.plan, rows=build_codec("rows", rows)))
    with looped(everywhere(experiment), shards=shards) as (loop, runtime):
        loop.run(loop.start(), lambda state, row: None)
        most = [loop._post.most_training_bytes(client) for client in range(4)]
    messages = [*runtime.sent, *runtime.received]
    spent = {(r, c): sum(length(m) for _, q, k, m in messages if (q, k) == (r, c)) for r in (1, 2) for c in range(4)}
    assert all(0 < cost <= most[client] for (_, client), cost in spent.items()), (spent, most)


@pytest.mark.parametrize("budget", [60_000, 90_000, 200_000])
def test_a_budget_is_kept_however_often_clients_wait(budget):
    experiment, shards = often(rounds=50, budget__bytes=budget)
    state, rows, _ = run(experiment, shards=shards)
    assert rows
    assert state.finished == "budget"
    assert 0.4 * budget < state.bytes["down"] + state.bytes["up"] <= budget


# --- who is refused ---------------------------------------------------------------------------------------------------


def test_a_client_that_waits_too_often_is_refused():
    experiment, shards = often(rounds=1)
    plan = experiment.plan

    def tamper(kind, round, client, reply):
        return waiting(plan, round) if kind in ("train", "rows") and client == 1 else reply

    state, (row,), runtime = run(everywhere(experiment), tamper, shards)
    assert row.failed == {1: "waited for rows more than 5 times in a round"}
    assert [client for kind, _, client, _ in runtime.sent if kind == "rows"].count(1) == plan.refreshes == 5
    assert [c for kind, _, c, _ in runtime.sent if kind == "rows"].count(0) == 4
    assert state.version == 1, "the others' updates are merged"


def nowhere(shards, task):
    """A node of client 1 that nobody needs."""
    needed = mailbox_of(task, shards).needed(1)
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
        rows = np.full((1, plan.task.tables[0]), 77.0, np.float32)
        return waiting(plan, round, [Mail(np.array([node]), rows)])

    state, (row,), _ = run(everywhere(experiment), tamper, shards)
    assert row.failed == {1: f"rows of nodes that nobody needs, among {node}..{node}"}
    assert np.isfinite(np.concatenate([rows.ravel() for rows in state.mailbox["rows"]])).all()
    assert not (np.concatenate([rows.ravel() for rows in state.mailbox["rows"]]) == 77.0).any()


@pytest.mark.parametrize(("value", "reason"), [(np.nan, "a row is not finite"), (np.inf, "a row is not finite")])
def test_rows_that_are_not_finite_are_refused(value, reason):
    experiment, shards = often(rounds=1)
    plan = experiment.plan

    def tamper(kind, round, client, reply):
        if client != 2 or kind not in ("train", "rows"):
            return reply
        message = opened(plan, reply)
        arrays = {name: array.copy() for name, array in message.arrays.items()}
        arrays[f"{MAIL}rows.0"][:1] = value
        return wire.encode(replace(message, arrays=arrays), *replies_of(plan, message.kind))

    state, (row,), _ = run(everywhere(experiment), tamper, shards)
    assert row.failed == {2: reason}
    assert all(np.isfinite(rows).all() for rows in state.mailbox["rows"])


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
    assert state.failing == {}


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
    assert state.failing == {"2": "client 2 needs node 5000 of client 3, where there is none"}
    assert state.examples[2] == 0
    assert [client for kind, _, client, _ in runtime.sent if kind == "statistics"] == [0, 1, 3]
    assert [len(halo["owner"]) for halo in state.halos] == [shards[0].halo, shards[1].halo, 0, shards[3].halo]


def test_rows_that_nobody_waits_for_are_an_error_of_the_client():
    experiment, shards = often()
    plan = experiment.plan
    request = wire.encode(Message("rows", 1, arrays=Courier(plan).raw([])), plan.coded_mail_layout)
    for holds in (True, False):
        client = Client(plan, dict(enumerate(shards)), holds=holds)
        reply, memory = client.serve(0, request, b"")
        assert memory == b""
        assert opened(plan, reply).text.startswith("sent rows that it does not wait for")
