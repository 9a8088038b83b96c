"""FedGCN over two hops: by hand on a path cut in three, and a GCN of two layers that is that of the whole graph."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedgraft.contracts.informed import Everybody
from fedgraft.domains.nodes.base.shards import cut, merge_shards
from fedgraft.domains.nodes.training.two_hop_sums import AROUND
from fedgraft.errors import InputError, WireError
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.models.sage import SAGE
from fedgraft.methods.tasks.node import Node
from helpers.node_runs import model_of, set_up, small
from helpers.toy_nodes import whole
from helpers.toy_runs import looped

TWO = {"aggregates": True, "share_states": False, "aggregate_hops": 2}


def logits_of(task, model, data):
    """Of all clients' own nodes, one client after another."""
    return np.concatenate([each.scored(model).numpy() for each in data])


def path():
    """0 - 1 - 2 - 3 of the clients a, b, b, c, with the features (v, 1)."""
    return cut(whole([(0, 1), (1, 2), (2, 3)], [0, 1, 0, 1]), np.array([0, 1, 1, 2]), ["a", "b", "c"])


def test_a_path_by_hand():
    """Degrees are 1, 2, 2, 1, so that features count 1 / sqrt(2), 1 / sqrt(3), 1 / sqrt(3), 1 / sqrt(2).

    a hears of node 1 the sum over 0, 1 and 2: (0, 1) / sqrt(2) + (1, 1) / sqrt(3) + (2, 1) / sqrt(3) = (1.7321, 1.8618)
    and its degree, 2. b is told of 0, the sum over 0 and 1: (0.5774, 1.2845), and of 3, that over 2 and 3:
    (2, 1) / sqrt(3) + (3, 1) / sqrt(2) = (3.2760, 1.2845).
    """
    task = Node(GCN(hidden=(3, 2)), **TWO).fitted(path())
    told = task.combine({client: task.statistics(shard) for client, shard in enumerate(path())})
    np.testing.assert_allclose(told[0][AROUND + "features"], [[1.7321, 1.8618]], atol=1e-4)
    assert told[0]["degree"].tolist() == [2]
    np.testing.assert_allclose(told[1][AROUND + "features"], [[0.5774, 1.2845], [3.2760, 1.2845]], atol=1e-4)
    assert told[1]["degree"].tolist() == [1, 1]
    assert np.unpackbits(told[1]["known"], count=2).tolist() == [1, 1]


@pytest.mark.parametrize(
    "options", [{"encoder": GCN(hidden=(6, 5)), "head": "linear"}, {"encoder": GCN(hidden=(6,)), "head": "convolution"}]
)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_two_layers_at_own_nodes_are_those_of_the_whole_graph_with_two_hops_and_not_with_one(options, is_sparse):
    experiment, shards = small("fedgcn", data__sparse=is_sparse)
    two = replace(experiment.plan.task, **options, aggregate_hops=2)
    one, model = replace(two, aggregate_hops=1), model_of(two)
    graph = two.prepare(merge_shards(shards), {})
    expected = logits_of(two, model, [graph])
    assert sum(shard.halo for shard in shards) > 0
    np.testing.assert_allclose(logits_of(two, model, set_up(two, shards)), expected, rtol=1e-5, atol=1e-5)
    assert np.abs(logits_of(one, model, set_up(one, shards)) - expected).max() > 0.01


def test_a_neighbour_of_a_client_that_published_nothing_is_left_out():
    shards = path()
    task = Node(GCN(hidden=(3, 2)), **TWO).fitted(shards)
    told = task.combine({client: task.statistics(shards[client]) for client in (0, 1)})
    here = task.prepare(shards[1], told[1])
    assert here.halo == 1
    assert np.isfinite(here.scored(model_of(task)).numpy()).all()
    assert task.prepare(shards[1], {}).halo == 0


def test_a_run_has_the_further_sums_in_its_ledger():
    sent = {}
    for hops in (1, 2):
        changes = {"model.name": "gcn", "model.hidden": [6, 5], "task.aggregate_hops": hops}
        experiment, shards = small("fedgcn", rounds=1, **changes)
        with looped(experiment, shards=shards) as (loop, _):
            sent[hops] = loop.run(loop.start(), lambda state, row: None).bytes
    assert sent[2]["statistics"] > sent[1]["statistics"] > 0
    for purpose in ("model", "header"):
        assert sent[2][purpose] == sent[1][purpose]
    more = {name: sent[2][name] - sent[1][name] for name in sent[1]}
    assert more["down"] + more["up"] == more["statistics"]


def test_a_new_node_joined_to_one_elsewhere_changes_the_halo_and_not_what_was_told_of_it():
    shards = path()
    task = Node(GCN(hidden=(3, 2)), **TWO).fitted(shards)
    told = task.combine({client: task.statistics(shard) for client, shard in enumerate(shards)})
    nodes = pd.DataFrame([("x", 4, 1, "c")], columns=["node", "0", "1", "client"])
    edges = pd.DataFrame([("x", "0")], columns=["source", "target"])
    asked = task.questions(shards, {"nodes": nodes, "edges": edges})[2].asked
    memories = {client: {"shared": each} for client, each in told.items()}
    asked = task.informed(asked, Everybody(shards, memories.__getitem__, lambda client: None))
    before, after = task.prepare(shards[2], told[2]), task.with_asked(shards[2], memories[2], asked)
    assert (before.own, after.own) == (1, 2)
    assert before.halo == after.halo == 1, "of node 0 no sum was told to c"
    np.testing.assert_array_equal(after.sums.filled(np.array([2])), before.sums.filled(np.array([1])))
    model = model_of(task)
    np.testing.assert_allclose(after.scored(model)[0], before.scored(model)[0], rtol=1e-6)
    assert np.isfinite(after.scored(model).numpy()).all()


@pytest.mark.parametrize("name", ["degree", AROUND + "features", "boundary"])
def test_sizes_that_do_not_fit_are_refused(name):
    task = Node(GCN(hidden=(3, 2)), **TWO).fitted(path())
    statistics = task.statistics(path()[1])
    with pytest.raises(WireError):
        task.check({**statistics, name: statistics[name][:-1]})


@pytest.mark.parametrize(
    ("encoder", "options", "message"),
    [
        (GCN(hidden=(3, 2)), {"aggregate_hops": 3}, "must be 1 or 2; got 3"),
        (GCN(hidden=(3, 2)), {"aggregates": False}, "must be 1 where task.aggregates is false"),
        (SAGE(hidden=(3, 2)), {}, r"must be 1 unless a sum holds the node \(gcn\)"),
        (GCN(hidden=(3, 2, 2)), {}, "must be 1 unless the model has two convolutions"),
    ],
)
def test_options_that_do_not_fit_are_refused(encoder, options, message):
    with pytest.raises(InputError, match=rf"Node\.aggregate_hops {message}"):
        Node(encoder, **{**TWO, **options})
