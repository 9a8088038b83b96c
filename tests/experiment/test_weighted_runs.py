"""Whole runs over edges with weights: halos and smoothed answers; a weight of 1 changes no bit."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.errors import InputError
from fedgraft.experiment.storage.stored_state import check_state
from helpers.node_runs import small
from helpers.toy_runs import looped


def weighted(shards: list[NodeShard], weight: float | None) -> list[NodeShard]:
    """The same graph with a weight of all edges but those from every third node, which weigh 1."""
    made = []
    for shard in shards:
        count = len(shard.senders)
        each = None if weight is None else np.where(shard.senders % 3, weight, 1).astype(np.float32)
        rows = EdgeRows(np.zeros((count, 0), np.float32), np.ones(count, bool), np.arange(count), each)
        made.append(replace(shard, edge_rows=rows))
    return made


def ran(weight: float | None, recipe: str, **changes: object):
    _, shards = small(recipe)
    there = weighted(shards, weight)
    experiment, _ = small(recipe, shards=there, **changes)
    with looped(experiment, None, there) as (loop, _):
        state = loop.run(loop.start(), lambda state, row: None)
        loop.smooth(state)
    return experiment, state


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [("graft_node", {"answers__smoothing": 2}), ("fedais", {"rounds": 2}), ("fedgcn", {"rounds": 2})],
    ids=["smoothed", "halos", "aggregates"],
)
def test_a_weight_of_one_is_none(recipe: str, changes: dict[str, object]) -> None:
    _, one = ran(1.0, recipe, **changes)
    _, none = ran(None, recipe, **changes)
    _, more = ran(0.25, recipe, **changes)
    assert wire.pack(one.best["models"]) == wire.pack(none.best["models"])
    assert one.best["test"] == none.best["test"]
    assert wire.pack(one.best["models"]) != wire.pack(more.best["models"])


def test_sums_of_weights_that_few_bits_make_0_end_no_run() -> None:
    shards = weighted(small("fedais")[1], 1.0)
    heavy = [np.repeat(np.arange(shard.own) % 4 == 0, shard.degree) for shard in shards]
    rows = [
        replace(shard.edge_rows, weight=np.where(each, 1e4, 1).astype(np.float32))
        for shard, each in zip(shards, heavy, strict=True)
    ]
    there = [replace(shard, edge_rows=each) for shard, each in zip(shards, rows, strict=True)]
    experiment, _ = small("fedais", shards=there, rows="quantized", rows__bits=4, rounds=1)
    with looped(experiment, None, there) as (loop, _):
        assert loop.run(loop.start(), lambda state, row: None).round == 1


def test_weights_of_boundaries_are_part_of_the_state() -> None:
    experiment, state = ran(0.25, "graft_node", answers__smoothing=2)
    check_state(state, experiment.plan, experiment.selector, "state.bin")
    assert set(state.exchange.boundaries["weights"].tolist()) == {0.25, 1.0}
    state.exchange.boundaries = {**state.exchange.boundaries, "weights": -state.exchange.boundaries["weights"]}
    with pytest.raises(InputError, match=r"state\.boundaries do not fit"):
        check_state(state, experiment.plan, experiment.selector, "state.bin")
