"""The node task: a worked example, and a graph in parts that is worth exactly what it is as a whole."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgraft.contracts import Batch
from fedgraft.contracts.task import example_losses
from fedgraft.contracts.values import HaloRows
from fedgraft.domains.nodes.base.shards import cut, merge_shards
from fedgraft.domains.nodes.training.client_graph import Memory
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.models.sage import SAGE
from fedgraft.methods.tasks.node import Node
from helpers.node_runs import added, model_of, relayed, set_up, small
from helpers.stages import restaged, staged
from helpers.toy_nodes import whole
from helpers.toy_runs import looped

PATH = cut(whole([(0, 1), (1, 2)], label=[1, 1, 0], split=[0, 1, 2]), np.array([0, 0, 1]), ["here", "there"])
"""Node 0 - node 1 - (node 2, elsewhere); node v has the features v and 1."""
COUNTS = ("correct", "count", "true", "claimed", "hit")


def by_hand(layers=2, **options):
    """h = own + mean over neighbours, of the first feature alone; class 0 is likelier where it is above 1.5."""
    task = Node(SAGE(hidden=(1,) * layers), **staged("node", {"exchange": Halo(neighbours=0), **options})).fitted(PATH)
    model = task.model(torch.Generator()).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.fill_(0.0 if key.endswith("bias") else 1.0)
        for layer in (model.convolutions[0].own, model.convolutions[0].mean):
            layer.weight.copy_(torch.tensor([[1.0], [0.0]]))
        model.head.weight.copy_(torch.tensor([[1.0], [0.0]]))
        model.head.bias.copy_(torch.tensor([0.0, 1.5]))
    return task, model


def cross_entropy(hidden, label):
    logits = torch.tensor([hidden, 1.5])
    return float(-logits.log_softmax(0)[label])


def last(task, model, data):
    """The last hidden layer of all own nodes, from all neighbours."""
    everywhere = replace(data, rows={**data.rows, "test": np.arange(data.own)}, memory=Memory())
    return task.asked.represent(model, everywhere)[0]


def test_draws_only_what_it_must():
    quiet = Node(SAGE(), exchange=Halo(neighbours=0))
    assert (quiet.seeds_draws, quiet.stochastic) == (False, False)
    assert restaged(quiet, {"exchange.neighbours": 5}).seeds_draws
    assert restaged(quiet, {"loss.dropout": 0.5}).stochastic
    made = restaged(quiet, {"generator": True, "exchange.features": False, "exchange.states": False})
    assert (made.seeds_draws, made.stochastic) == (True, True)


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_one_layer_by_hand():
    task, model = by_hand(layers=1)
    here, there = set_up(task, PATH)
    assert task.exchanged.halo_widths == ()
    # 0 + 1, 1 + (0 + 2) / 2 and 2 + 1.
    assert [last(task, model, data).ravel().tolist() for data in (here, there)] == [[1, 2], [3]]
    sums = task.evaluate(model, here)
    assert (sums["validation"]["correct"], sums["validation"]["count"], sums["test"]["count"]) == (0, 1, 0)
    assert sums["validation"]["loss"] == pytest.approx(cross_entropy(2.0, 1))
    assert task.score(task.evaluate(model, there)["test"]) == 1.0
    assert example_losses(task.loss(model, here, Batch(np.array([0])), None)).tolist() == pytest.approx(
        [cross_entropy(1.0, 1)]
    )


def test_two_layers_by_hand():
    task, model = by_hand()
    here, there = set_up(task, PATH)
    assert task.exchanged.halo_widths == (1,)
    # First layer 1, 2 and 3. Nothing is known yet of the first layer elsewhere: node 1 has 0 only, node 2 nobody.
    assert [last(task, model, data).ravel().tolist() for data in (here, there)] == [[3, 3], [3]]
    relayed_rows = task.exchanged.relay(model, here, 0)
    assert [(each.slot.tolist(), each.rows.tolist()) for each in relayed_rows] == [([1], [[2.0]])]
    task.exchanged.receive(there, [HaloRows(np.array([0]), relayed_rows[0].rows)])
    task.exchanged.receive(here, [HaloRows(np.array([0]), task.exchanged.relay(model, there, 0)[0].rows)])
    # 1 + 2, 2 + (1 + 3) / 2 and 3 + 2.
    assert [last(task, model, data).ravel().tolist() for data in (here, there)] == [[3, 4], [5]]


def test_features_alone_and_states_alone_by_hand():
    task, model = by_hand(**{"exchange.states": False})
    here, there = set_up(task, PATH)
    assert (task.exchanged.halo_widths, here.halo) == ((), 1)
    assert [last(task, model, data).ravel().tolist() for data in (here, there)] == [[3, 3], [3]]
    task, model = by_hand(**{"exchange.features": False})
    here, there = relayed(task, PATH, model)
    # First layer: 0 + 1, 1 + 0, and 2 alone. Second: 1 + 1, 1 + (1 + 2) / 2 and 2 + 1.
    assert [last(task, model, data).ravel().tolist() for data in (here, there)] == [[2, 2.5], [3]]


def test_training_uses_the_states_that_are_remembered_by_hand():
    task, model = by_hand()
    here, _ = set_up(task, PATH)
    step = Batch(np.array([0]))
    alone = example_losses(task.loss(model, here, step, None))
    assert alone.tolist() == pytest.approx([cross_entropy(1.0, 1)]), "of node 1 there is no state yet"
    losses = looked(task, model, here)
    assert losses.tolist() == pytest.approx([cross_entropy(3.0, 1)])
    assert example_losses(task.loss(model, here, step, None)).tolist() == pytest.approx([cross_entropy(3.0, 1)])
    here.states.write(0, np.array([1]), np.array([[7]], np.float32))
    assert example_losses(task.loss(model, here, step, None)).tolist() == pytest.approx([cross_entropy(8.0, 1)])
    task, model = by_hand(**{"exchange.fresh": True})
    here, _ = set_up(task, PATH)
    here.states.write(0, np.array([1]), np.array([[7]], np.float32))
    found = example_losses(task.loss(model, here, step, None))
    assert found.tolist() == pytest.approx([cross_entropy(3.0, 1)]), "own neighbours are computed anew"


def looked(task, model, data, seed=0):
    with torch.no_grad():
        return task.exchanged.look(model, data, seed, losses=True)


# --- a graph in parts -------------------------------------------------------------------------------------------------

ENCODERS = {
    f"{name}-{layers}": encoder(hidden=(6, 5, 4)[:layers])
    for name, encoder in (("sage", SAGE), ("gcn", GCN))
    for layers in (1, 2, 3)
}


def whole_graph(task, shards):
    """All shards' data as those of one client."""
    return task.exchanged.opened(task.prepare(merge_shards(shards), {}), None)


def check_equal(found, expected):
    """Sums of all clients together against those of the graph as a whole."""
    for split, sums in expected.items():
        for key, value in sums.items():
            if key.split("_")[0] in COUNTS:
                assert found[split][key] == value, (split, key)
        assert found[split]["loss"] == pytest.approx(sums["loss"], rel=1e-4)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("head", ["linear", "convolution"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_with_all_states_exchanged_a_graph_in_parts_is_scored_as_the_whole(encoder, head, is_sparse):
    experiment, shards = small(data__sparse=is_sparse, data__clients=5, data__partition="dirichlet")
    task = replace(experiment.plan.task, encoder=ENCODERS[encoder], head=head)
    model = model_of(task)
    data, graph = relayed(task, shards, model), whole_graph(task, shards)
    states = np.concatenate([last(task, model, each) for each in data])
    np.testing.assert_allclose(states, last(task, model, graph), rtol=1e-4, atol=1e-5)
    parts, expected = [task.evaluate(model, each) for each in data], task.evaluate(model, graph)
    check_equal({split: added([part[split] for part in parts]) for split in expected}, expected)


@pytest.mark.parametrize(
    ("name", "head", "layers"),
    [("sage", "linear", 1), ("sage", "linear", 3), ("sage", "convolution", 1), ("gcn", "linear", 2)],
)
def test_so_it_is_by_way_of_the_server_whatever_clients_remember(name, head, layers):
    changes = {"model.name": name, "model.hidden": [6, 5, 4][:layers], "task.head": head, "rounds": 1}
    experiment, shards = small(**changes)
    task = experiment.plan.task
    with looped(experiment, shards=shards) as (loop, _):
        state = loop.run(loop.start(), lambda state, row: None)
        model = model_of(task)
        arrays = {key: value.detach().numpy().copy() for key, value in model.named_parameters()}
        state.sharing = experiment.plan.sharing.init(arrays, len(shards))
        stored = [rows.copy() for rows in state.exchange.halo_store.get("rows", [])]
        found = loop._scoring(state)
        assert all(map(np.array_equal, state.exchange.halo_store.get("rows", []), stored)), "no trace in the halo store"
    assert found.failed == {}
    check_equal(found.sums, task.evaluate(model, whole_graph(task, shards)))


@pytest.mark.parametrize("name", ["sage", "gcn"])
def test_with_nothing_shared_a_graph_is_as_if_no_edge_were_cut(name):
    experiment, shards = small(
        "fedlocal", sharing__name="fedavg", exchange__features=False, exchange__states=False, model__name=name
    )
    task, model = experiment.plan.task, model_of(experiment.plan.task)
    owner = np.repeat(np.arange(len(shards)), [shard.own for shard in shards])
    graph = merge_shards(shards)
    receiver = np.repeat(np.arange(graph.own), graph.degree)
    inner = (owner[receiver] == owner[graph.senders]) & (receiver < graph.senders)
    edges = list(zip(receiver[inner].tolist(), graph.senders[inner].tolist(), strict=True))
    parts = cut(
        replace(whole(edges, label=graph.label, classes=3), features=graph.features, split=graph.split),
        owner,
        [shard.name for shard in shards],
    )
    assert not task.publications.statistics_layout.specs
    for shard, part in zip(shards, parts, strict=True):
        assert shard.halo
        assert not part.halo
        one, other = (task.exchanged.opened(task.prepare(each, {}), None) for each in (shard, part))
        assert task.evaluate(model, one) == task.evaluate(model, other)
        step = Batch(np.arange(task.examples(one))[::2], seed=3)
        assert torch.equal(
            example_losses(task.loss(model, one, step, None)), example_losses(task.loss(model, other, step, None))
        )


def test_a_node_without_edges_is_told_by_its_own_features():
    shards = cut(whole([(0, 1), (1, 2)], label=[0, 1, 0, 1, 0, 1]), np.array([0, 0, 0, 0, 1, 1]), ["one", "two"])
    for encoder in (SAGE(hidden=(3, 2)), GCN(hidden=(3, 2))):
        task = Node(encoder).fitted(shards)
        model = model_of(task)
        here, there = relayed(task, shards, model)
        lone = cut(whole([], label=[0, 1, 0, 1, 0, 1]), np.array([0, 0, 0, 0, 1, 1]), ["one", "two"])
        bare = [task.exchanged.opened(task.prepare(shard, {}), None) for shard in lone]
        torch.testing.assert_close(last(task, model, here)[3], last(task, model, bare[0])[3])
        np.testing.assert_array_equal(last(task, model, there), last(task, model, bare[1]))
        assert np.isfinite(looked(task, model, there)).all()


def test_a_client_without_training_nodes_pushes_answers_and_is_not_asked_to_train():
    split = [0, 0, 0, 1, 2, 1]
    shards = cut(whole(split=split), np.array([0, 0, 0, 1, 1, 1]), ["one", "two"])
    task = Node(SAGE(hidden=(3, 2))).fitted(shards)
    model = model_of(task)
    data = relayed(task, shards, model)
    assert [task.examples(each) for each in data] == [3, 0]
    assert task.describe(data[1]) == dict.fromkeys(task.describe(data[0]), 0.0)
    assert looked(task, model, data[1]).shape == (0,)
    assert [len(rows.slot) for rows in task.exchanged.changed(data[1])] == [2], (
        "nodes 3 and 4 are neighbours of client one's"
    )
    check_equal(task.evaluate(model, data[1]), task.evaluate(model, whole_graph(task, shards)))
    experiment, _ = small(shards=shards, data__clients=2, selector__clients=2, model__hidden=[3, 2])
    with looped(experiment, shards=shards) as (loop, runtime):
        state = loop.run(loop.start(), lambda state, row: None)
    assert {client for kind, _, client, _ in runtime.sent if kind == "train"} == {0}
    assert state.clients.failing == {}
    assert np.isfinite(state.curve[-1]["test"])


def test_a_class_that_a_client_lacks_is_scored_like_any_other():
    shards = cut(whole(label=[0, 0, 0, 1, 1, 2], split=[0, 1, 2, 0, 1, 2], classes=3), np.arange(6) // 3, ["a", "b"])
    task = Node(SAGE(hidden=(3, 2))).fitted(shards)
    model = model_of(task)
    data, graph = relayed(task, shards, model), whole_graph(task, shards)
    parts = [task.evaluate(model, each) for each in data]
    check_equal({split: added([part[split] for part in parts]) for split in parts[0]}, task.evaluate(model, graph))
    assert task.describe(data[0])["label_0"] == 1.0
    assert task.describe(data[1])["label_1"] == 1.0
