"""The graph that is nobody's: its blocks, and what models of every kind make of it; masks in these models."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgraft.contracts import Batch
from fedgraft.contracts.task import example_losses
from fedgraft.domains.nodes.task.variants import BLOCKS, LINKED, SIZE, block_graph
from fedgraft.errors import InputError
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.models.gin import GIN
from fedgraft.methods.models.mlp import MLP
from fedgraft.methods.models.sage import SAGE
from fedgraft.methods.tasks.node import Node
from fedgraft.nn.layers import unmask
from helpers.stages import staged

ENCODERS = [GCN(hidden=(5, 4)), SAGE(hidden=4), GIN(hidden=4), MLP(hidden=4)]


def task(encoder, **options):
    return Node(**staged("node", {"encoder": encoder, "features": 6, "classes": 3, **options}))


def test_blocks_of_nodes_that_are_linked_by_chance():
    graph = block_graph(np.random.default_rng(1), 6, ("a", "b"))
    assert (graph.own, graph.halo, graph.width) == (BLOCKS * SIZE, 0, 6)
    receivers = np.repeat(np.arange(graph.own), graph.degree)
    assert (receivers // SIZE == graph.senders // SIZE).all(), "no edge between blocks"
    links = set(zip(receivers.tolist(), graph.senders.tolist(), strict=True))
    assert all((b, a) in links and a != b for a, b in links)
    possible = BLOCKS * SIZE * (SIZE - 1)
    assert len(links) / possible == pytest.approx(LINKED, abs=5 * (LINKED / possible) ** 0.5)
    assert (graph.label == -1).all()
    assert (graph.split == -1).all()


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(
    "options", [{}, {"sparse": True, "inputs.propagate": 1}, {"inputs.aggregates": True, "exchange.states": False}]
)
def test_a_response_is_as_wide_as_the_last_hidden_layer(encoder, options):
    node = task(encoder, **options)
    model = node.model(torch.Generator().manual_seed(1)).eval()
    with torch.no_grad():
        response = node.synthesis.response(model, node.synthesis.synthetic(np.random.default_rng(1)))
    assert response.shape == (node.synthesis.response_width,) == (4,)
    assert response.dtype == np.float32


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("head", ["linear", "convolution"])
def test_masks_change_what_a_model_says_and_learn(encoder, head):
    plain = task(encoder, head=head)
    masked = plain.with_parts(frozenset({"mask"}))
    assert "mask" in plain.offers
    assert masked == replace(plain, mask=True)
    graph = block_graph(np.random.default_rng(1), 6, ("a", "b", "c"))
    graph = replace(graph, label=np.arange(graph.own) % 3, split=np.zeros(graph.own, np.int8))
    data, draw = plain.prepare(graph, {}), Batch(np.arange(graph.own))
    one, other = (each.model(torch.Generator().manual_seed(1)) for each in (plain, masked))
    masks = {name: each for name, each in other.named_parameters() if name.endswith(".mask")}
    weights = [name.removesuffix("mask") + "weight" for name in masks]
    assert set(weights) <= dict(one.named_parameters()).keys()
    assert len(masks) >= 2
    losses = [example_losses(node.loss(each, data, draw, None)) for node, each in ((plain, one), (masked, other))]
    assert torch.allclose(*losses, atol=1e-6), "masks of ones change nothing"
    assert masked.loss_and_backward(other, data, draw) is None, "no gradient by hand"
    losses[1].mean().backward()
    assert all(mask.grad is not None and mask.grad.abs().sum() > 0 for mask in masks.values())
    with torch.no_grad():
        for mask in masks.values():
            mask.fill_(-1)
        answers = masked.scored(other.eval(), data)
    assert np.allclose(answers, answers[0], atol=1e-6), "without any weight all nodes are alike"


def test_an_exported_model_has_its_masks_in_its_weights():
    masked = task(GCN(hidden=(5,)), mask=True)
    model = masked.model(torch.Generator().manual_seed(1))
    with torch.no_grad():
        for name, each in model.named_parameters():
            if name.endswith(".mask"):
                each.copy_(torch.rand(each.shape, generator=torch.Generator().manual_seed(2)))
    module = copy.deepcopy(masked.plain(model, None, {}).module)
    unmask(module)
    arrays = module.state_dict()
    assert torch.equal(arrays["model.head.weight"], model.head.weight * (1 + model.head.mask))
    first = model.convolutions[0].linear
    assert torch.equal(arrays["model.convolutions.0.linear.weight"], first.weight * (1 + first.mask))
    assert not any("mask" in name for name in arrays)


def test_networks_that_refine_answers_are_not_exported():
    refined = task(GCN(hidden=(5,)), refinement=True, **{"exchange.states": False})
    with pytest.raises(InputError, match=r"task\.refinement must be false for a model that is exported"):
        refined.plain(refined.model(torch.Generator()), None, {})
