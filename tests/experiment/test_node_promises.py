"""What a run on one graph promises, whatever a client sends and whichever methods meet."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.contracts.values import Halo
from fedgraft.domains.nodes.base.shards import cut
from fedgraft.engine.halo_codec import HaloCodec
from fedgraft.engine.plan import HALO
from fedgraft.engine.server.halo import HaloStore
from fedgraft.errors import AllClientsFailedError, InputError
from fedgraft.experiment.recipes.discovery import find
from fedgraft.experiment.running import baseline_scores
from fedgraft.wire import Message
from helpers.node_runs import OFTEN, small
from helpers.segmented_rounds import everywhere, often, opened, replies_of
from helpers.toy_nodes import whole
from helpers.toy_runs import length, looped, run


@pytest.mark.parametrize("kind", ["train", "rows"])
def test_a_reply_of_a_kind_that_is_none_costs_that_client_its_round(kind):
    experiment, shards = often(rounds=1)

    def tamper(asked, round, client, reply):
        return wire.encode(Message("rows", round)) if (asked, client) == (kind, 1) else reply

    state, (row,), _ = run(everywhere(experiment), tamper, shards)
    assert row.failed == {1: f"answered 'rows' of round 1 to {kind!r} of round 1"}
    assert state.merges == 1


def test_a_client_cannot_make_a_round_dearer_than_was_said_before():
    experiment, shards = often(rounds=1, model__hidden=[6, 400])
    plan, limits = experiment.plan, {}

    def tamper(kind, round, client, reply):
        if kind not in ("train", "rows") or client != 1:
            return reply
        arrays = HaloCodec(plan).raw([])
        empty = len(wire.encode(Message("wait", round, arrays=arrays), *replies_of(plan, "wait")))
        arrays[f"{HALO}slots.0"] = np.zeros(limits[client] - empty, np.uint8)  # of no node, but long
        return wire.encode(Message("wait", round, arrays=arrays), *replies_of(plan, "wait"))

    with looped(everywhere(experiment), tamper, shards) as (loop, runtime):
        state = loop.start()
        messenger = loop._messenger
        limits[1] = messenger.limits.reply_bytes("train") + messenger._halo.most_bytes(1)[0]
        rows = []
        loop.run(state, lambda state, row: rows.append(row))
    assert rows[0].failed == {1: "tells more of its nodes than there is to tell"}
    spent = sum(length(m) for _, r, c, m in [*runtime.sent, *runtime.received] if (r, c) == (1, 1))
    assert spent <= messenger.most_training_bytes(1).total


def test_nobody_with_sound_addresses_is_an_error_with_the_reasons():
    experiment, shards = often()

    def tamper(kind, round, client, reply):
        if kind != "hello":
            return reply
        message = opened(experiment.plan, reply)
        arrays = {**message.arrays, "place": message.arrays["place"] + np.uint32(5_000)}
        return wire.encode(replace(message, arrays=arrays), *replies_of(experiment.plan, "hello"))

    with looped(experiment, tamper, shards) as (loop, _), pytest.raises(AllClientsFailedError) as caught:
        loop.start()
    assert all("where there is none" in reason for reason in caught.value.reasons.values())
    assert len(caught.value.reasons) == 4


def test_addresses_at_a_client_that_never_answered_cost_the_server_nothing():
    experiment, shards = often(rounds=1)

    def tamper(kind, round, client, reply):
        if kind == "hello" and client == 3:
            return ClientFailed("gone")
        if kind != "hello" or client != 0:
            return reply
        message = opened(experiment.plan, reply)
        place = message.arrays["place"].copy()
        place[-1] = 2**32 - 1
        return wire.encode(
            replace(message, arrays={**message.arrays, "place": place}), *replies_of(experiment.plan, "hello")
        )

    with looped(everywhere(experiment, (0, 1, 2)), tamper, shards) as (loop, _):
        state = loop.run(loop.start(), lambda state, row: None)
    assert state.clients.failing == {"3": "gone"}
    assert sum(rows.nbytes for rows in state.exchange.halo_store["rows"]) < 10_000


def test_a_halo_store_keeps_rows_of_needed_nodes_alone():
    few = Halo(np.array([1, 1]), np.array([7, 2**31]))
    store = HaloStore([3, 2**31 + 1], [few, Halo(np.array([0]), np.array([2]))], [4])
    assert store.start()["rows"][0].shape == (3, 4)
    assert [store.needed(client).tolist() for client in range(2)] == [[2], [7, 2**31]]


@pytest.mark.parametrize("recipe", ["fedais", "fedall", "fedpns"])
def test_a_sharing_method_that_trains_twice_in_a_round_waits_as_often_as_it_may(recipe):
    changes = OFTEN if recipe == "fedais" else {}
    experiment, shards = small(recipe, sharing__name="cefgl", rounds=8, sharing__probability=0.5, **changes)
    state, rows, _ = run(experiment, shards=shards)
    assert all(row.failed == {} for row in rows)
    assert state.bytes["halo"] > 0


@pytest.mark.parametrize("recipe", ["fedais", "fedall", "fedgcn", "fedlocal"])
def test_local_only_is_trained_on_what_a_client_has_without_the_others(recipe):
    experiment, shards = small(recipe, data__clients=2, training__learning_rate=0.05, rounds=3, selector__clients=2)
    task = experiment.plan.task
    owner = np.repeat([0, 1], [shard.own for shard in shards])
    graph = task.pooled(shards)
    receiver = np.repeat(np.arange(graph.own), graph.degree)
    inner = (owner[receiver] == owner[graph.senders]) & (receiver < graph.senders)
    edges = list(zip(receiver[inner].tolist(), graph.senders[inner].tolist(), strict=True))
    inner_graph = replace(whole(edges, label=graph.label, classes=3), features=graph.features, split=graph.split)
    parts = cut(inner_graph, owner, ["a", "b"])
    assert [part.halo for part in parts] == [0, 0]
    assert [task.alone(shard).halo for shard in shards] == [0, 0]
    found = baseline_scores._train(experiment, shards, "local_only")
    assert found == baseline_scores._train(experiment, parts, "local_only")
    with looped(replace(experiment, selector=find("selectors", "all")()), shards=[task.alone(shards[0])]) as (loop, _):
        state = loop.run(loop.start(), lambda state, row: None)
    assert state.merges == 3, "it does train"


def test_a_codec_that_cannot_code_rows_is_an_error_before_the_run():
    with pytest.raises(InputError, match="Error feedback needs arrays of fixed shape"):
        small(rows={"name": "float16", "feedback": True})
