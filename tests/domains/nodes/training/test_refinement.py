"""AdaFGL's networks: smoothing behind the first layer, signs of messages, losses and answers by hand; and in `node`."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgraft.contracts import Batch
from fedgraft.domains.nodes.task.variants import block_graph
from fedgraft.domains.nodes.training.refinement import Perceptron, Said, Topology, losses, refined, signed
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.tasks.node import Node
from fedgraft.nn.layers import RowLinear
from helpers.stages import staged


def test_to_map_and_then_to_smooth_is_to_smooth_features_side_by_side():
    g = torch.Generator().manual_seed(1)
    layers = Perceptron(4, (3,), 3, 0.0, g)
    inputs, matrix = torch.randn(5, 4, generator=g), torch.rand(5, 5, generator=g)
    hops = [inputs]
    for _ in range(3):
        hops.append(matrix @ hops[-1])
    used = [each.used.t() if isinstance(each, RowLinear) else each.used for each in layers.first]
    weights = torch.cat(used, 1)
    assert torch.allclose(layers(inputs, matrix), torch.cat(hops, 1) @ weights.t() + layers.first[0].bias, atol=1e-5)
    assert [each.bias is None for each in layers.first] == [False, True, True, True]


def test_signs_of_messages():
    # Of four numbers the mean is 0.35: 0.9 is the most, 0 the least, 0.25 in between: (0.25 - 0.35) / 0.35.
    found = signed(torch.tensor([[0.0, 0.9], [0.25, 0.25]]))
    assert torch.allclose(found, torch.tensor([[1.0, 1.0], [-0.1 / 0.35, 1.0]]))


def said(*rows):
    return Said(*(torch.tensor(each) for each in rows))


def test_losses_and_answers_by_hand():
    even, sure = [[0.0, 0.0], [0.0, 0.0]], [[0.0, 20.0], [0.0, 20.0]]
    seen = Topology(torch.tensor([[0.8, 0.2], [0.5, 0.5]]), torch.eye(2), 0.75)
    each, shared = losses(said(even, even, sure, even), seen, torch.tensor([1]), torch.tensor([1]))
    assert each.tolist() == pytest.approx([3 * np.log(2)])
    assert float(shared) == pytest.approx((0.8**2 + 0.2**2 + 0.5**2 + 0.5**2) / 4)
    answers = refined(said(even, even, sure, sure), seen)
    assert answers[0].tolist() == pytest.approx([0.75 * 0.65 + 0.25 / 6, 0.75 * 0.35 + 0.25 * 5 / 6])
    assert torch.allclose(answers.sum(1), torch.ones(2))


def client():
    task = Node(
        encoder=GCN(hidden=(5,)), head="convolution", features=6, classes=3, exchange=Halo(states=False, neighbours=0)
    )
    assert "refinement" in task.offers
    task = task.with_parts(frozenset({"refinement"}))
    graph = block_graph(np.random.default_rng(1), 6, ("a", "b", "c"))
    split = np.arange(graph.own) % 3
    label = np.arange(graph.own) // 100 % 3
    features = (graph.features + 2 * np.eye(6)[label]).astype(np.float32)
    graph = replace(graph, features=features, label=label, split=split.astype(np.int8))
    return task, task.prepare(graph, {}), task.model(torch.Generator().manual_seed(1))


def test_the_model_answers_until_the_networks_are_active():
    task, data, model = client()
    plain = replace(task, refinement=False)
    other = plain.model(torch.Generator().manual_seed(1))
    (extension,) = task.extensions
    assert not extension.answers(model)
    assert np.array_equal(task.scored(model.eval(), data), plain.scored(other.eval(), data))
    model.refinement.active.fill_(1)
    assert extension.answers(model)
    answers = task.scored(model, data)
    assert answers.shape == (data.own, 3)
    assert np.allclose(answers.sum(1), 1, atol=1e-5)
    assert not np.allclose(answers, plain.scored(other, data), atol=1e-3)


def test_networks_learn_and_the_model_does_not():
    task, data, model = client()
    model.refinement.active.fill_(1)
    draw, before = Batch(np.arange(task.examples(data))), task.evaluate(model.eval(), data)["validation"]
    optimizer = torch.optim.Adam(model.refinement.parameters(), lr=0.01)
    for _ in range(30):
        optimizer.zero_grad()
        found = task.loss(model.train(), data, draw, None)
        (found.each.mean() + found.shared).backward()
        optimizer.step()
    own = [
        name for name, each in model.named_parameters() if not name.startswith("refinement.") and each.grad is not None
    ]
    assert own == [], "what it says is taken as it is"
    after = task.evaluate(model.eval(), data)["validation"]
    assert task.score(after) > task.score(before) + 0.1


def test_the_topology_is_made_anew_once_the_model_has_changed():
    task, data, model = client()
    model.refinement.active.fill_(1)
    task.scored(model.eval(), data)
    first = data.view.topology
    task.scored(model, data)
    assert data.view.topology is first
    with torch.no_grad():
        model.refinement.own.bend.weight.add_(1)
    task.scored(model, data)
    assert data.view.topology is first, "the networks have no part in it"
    with torch.no_grad():
        model.convolutions[0].linear.weight.add_(1)
    task.scored(model, data)
    assert data.view.topology is not first


@pytest.mark.parametrize("options", [{"exchange.states": True}, {"inputs.aggregates": True, "exchange.states": False}])
def test_it_is_not_on_offer_where_answers_depend_on_what_is_remembered(options):
    assert "refinement" not in Node(**staged("node", {"encoder": GCN(), "features": 6, "classes": 3, **options})).offers
