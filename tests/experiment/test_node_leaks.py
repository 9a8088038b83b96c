"""What no message of a run on one graph may hold: labels of test nodes, and features that are not shared."""

from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest

from fedgraft import wire
from helpers.leaking_runs import LENGTH, found, ran, random_features, stretches
from helpers.node_runs import OFTEN, small
from helpers.toy_runs import same

LONG = {"training.epochs": 3, "rounds": 3}
"""Until what an interval follows has moved it."""

"""Bytes that are looked for, two features in a row: few enough to find a piece of a row, too many to be chance."""


def test_a_stretch_is_found_wherever_it_is():
    row = np.random.default_rng(0).standard_normal(8).astype(np.float32).tobytes()
    wanted = stretches(row)
    assert len(wanted) == len(row) - LENGTH + 1
    for begin in range(9):
        for piece in (row, row[:LENGTH], row[5 : 5 + LENGTH], row[-LENGTH:]):
            assert np.isin(stretches(b"x" * begin + piece + b"yz"), wanted).any()
    assert not np.isin(stretches(b"x" * 50 + row[: LENGTH - 1]), wanted).any()


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("fedais", OFTEN),
        ("fedais", {**OFTEN, "task.head": "convolution", "model.name": "gcn"}),
        *[(recipe, {}) for recipe in ("fedais1", "fedall", "fedpns", "fedrandom", "fedgraph", "fedsage_plus")],
        ("three_levers", {"selector.clients": "ucb"}),
    ],
)
def test_features_that_are_not_shared_are_in_no_message(recipe, changes, is_sparse):
    experiment, shards = small(recipe, **changes, exchange__features=False, rounds=2)
    shards = list(random_features(shards, is_sparse))
    experiment = replace(experiment, plan=replace(experiment.plan, task=experiment.plan.task.fitted(shards)))
    assert experiment.plan.task.sparse == is_sparse
    messages, _, state = ran(experiment, shards)
    assert state.bytes["halo"] > 0, "and yet clients exchanged rows"
    assert found(messages, shards) == 0


@pytest.mark.parametrize("is_sparse", [False, True])
def test_features_that_are_shared_are_found_so_that_the_search_is_one(is_sparse):
    experiment, shards = small(rounds=1)
    shards = list(random_features(shards, is_sparse))
    experiment = replace(experiment, plan=replace(experiment.plan, task=experiment.plan.task.fitted(shards)))
    messages, _, _ = ran(experiment, shards)
    assert found(messages, shards) > 1000


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("fedais", OFTEN),
        *[(recipe, {}) for recipe in ("fedais", "fedall", "fedlocal", "fedpns", "fedgcn", "fedgraph", "fedsage_plus")],
    ],
)
def test_no_message_and_no_memory_depends_on_labels_of_test_nodes(recipe, changes):
    experiment, shards = small(recipe, **{**LONG, **changes})
    g = np.random.default_rng(0)
    blind = []
    for shard in shards:
        label, test = shard.label.copy(), shard.rows("test")
        label[test] = (label[test] + g.integers(1, 3, len(test))) % 3  # every one of them is another
        blind.append(replace(shard, label=label))
    (messages, memories, state), (others, others_memories, other) = (ran(experiment, each) for each in (shards, blind))
    assert messages == others, "bit for bit"
    assert memories == others_memories
    for name in ("sharing", "exchange.halo_store", "sampler", "selector", "clients.chosen", "bytes"):
        assert same(attrgetter(name)(state), attrgetter(name)(other)), name
    assert [point["validation"] for point in state.curve] == [point["validation"] for point in other.curve]
    assert state.losses["test"] != other.losses["test"], "but what is scored is another"


def test_nor_does_any_depend_on_labels_for_validation_but_the_interval_that_follows_the_loss():
    for changes, expected in ((OFTEN, True), ({"sampler.least": 0.0, "training.learning_rate": 0.1}, False)):
        experiment, shards = small(**{**LONG, **changes}, selector__clients=4)
        blind = [replace(s, label=np.where(s.split == 1, (s.label + 1) % 3, s.label)) for s in shards]
        (messages, *_), (others, *_) = (ran(experiment, each) for each in (shards, blind))
        assert (messages == others) == expected


def test_what_a_client_remembers_holds_no_features_that_were_not_shared():
    experiment, shards = small(**OFTEN, exchange__features=False, rounds=2)
    shards = list(random_features(shards, False))
    _, memories, _ = ran(experiment, shards)
    assert memories
    for client, memory in memories.items():
        others = [shard for number, shard in enumerate(shards) if number not in (client, ~client)]
        assert found([memory], others) == 0
        assert client < 0 or "states" in wire.unpack(memory) or not wire.unpack(memory).get("sampler")
