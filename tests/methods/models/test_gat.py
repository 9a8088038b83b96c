"""GAT over listed edges: PyG's layers with the same weights, repeats, weights, and a task that learns."""

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv

from fedgraft.contracts import Batch
from fedgraft.contracts.task import example_losses
from fedgraft.errors import InputError
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.models.gat import GAT
from fedgraft.methods.tasks.node import Node
from fedgraft.nn.propagate import Given
from helpers.blocks import block_of, edges_of
from helpers.edge_shards import OWNER, STATES, WEIGHT, read, shards_of
from helpers.node_runs import model_of, relayed, set_up


def drawn(outputs: int = 4, edge_width: int = 2, seed: int = 0) -> nn.Module:
    return GAT().edge_convolution(3, outputs, edge_width, torch.Generator().manual_seed(seed))


def pyg(module: nn.Module, edge_width: int = 2) -> GATConv:
    """The layer of PyG that scores edges alike: c is what its map of columns and its vector make together."""
    layer = GATConv(3, 2, 2, edge_dim=edge_width or None, add_self_loops=False, bias=False, residual=True)
    with torch.no_grad():
        module.linear.bias.zero_()
        layer.lin.weight.copy_(module.linear.weight)
        layer.res.weight.copy_(module.own.weight)
        layer.att_dst.copy_(module.receiver[None])
        layer.att_src.copy_(module.sender[None])
        if edge_width:
            module.edge_scale.zero_()
            layer.lin_edge.weight.zero_()
            layer.lin_edge.weight[::2] = module.edge_score
            layer.att_edge.copy_(torch.tensor([1.0, 0.0]).expand(1, 2, 2))
    return layer


@pytest.mark.parametrize("edge_width", [2, 0])
def test_it_is_that_of_pyg_and_its_gradient_is_autograds(edge_width: int) -> None:
    module, block, states = drawn(edge_width=edge_width), read(shards_of()[0]), STATES.clone().requires_grad_()
    layer = pyg(module, edge_width)
    found = module(states, block)
    expected = layer(states, block.edge_index, *((block.edges.values,) if edge_width else ()))
    torch.testing.assert_close(found, expected)
    ours = [states, module.linear.weight, module.own.weight, module.receiver, module.sender]
    theirs = [states, layer.lin.weight, layer.res.weight, layer.att_dst, layer.att_src]
    pull = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    gradients = torch.autograd.grad(found, ours, pull, retain_graph=True), torch.autograd.grad(expected, theirs, pull)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other.view_as(one))


def test_what_edges_carry_scales_messages() -> None:
    module, block = drawn(), read(shards_of(WEIGHT)[0])
    sender, receiver = block.edge_index
    mapped = module.linear(STATES).view(6, 2, 2)
    ends = (mapped * module.receiver).sum(2)[receiver] + (mapped * module.sender).sum(2)[sender]
    scores = torch.nn.functional.leaky_relu(ends + block.edges.values @ module.edge_score.t(), 0.2)
    weights = scores.exp() * block.edge_weight[:, None]
    shares = weights / torch.zeros(6, 2).index_add(0, receiver, weights)[receiver]
    sent = (shares * (1 + block.edges.values @ module.edge_scale.t()))[:, :, None] * mapped[sender]
    expected = torch.zeros(6, 2, 2).index_add(0, receiver, sent).flatten(1) + module.own(STATES)
    torch.testing.assert_close(module(STATES, block), expected)


def test_heads_that_do_not_divide_a_width_are_averaged() -> None:
    module = drawn(outputs=3)
    assert module(STATES, read(shards_of()[0])).shape == (6, 3)
    assert module.linear.weight.shape == (6, 3)


def test_two_clients_compute_what_one_with_all_does() -> None:
    shards = shards_of(WEIGHT, owner=OWNER)
    task = Node(GAT(hidden=4, embedding=4), exchange=Halo(neighbours=0)).fitted(shards)
    model = model_of(task)
    parts = torch.cat([data.scored(model)[: data.own] for data in relayed(task, shards, model)])
    (data,) = set_up(task, [task.pooled(shards)])
    torch.testing.assert_close(parts, data.scored(model), rtol=1e-4, atol=1e-5)


def test_a_task_learns_from_columns(caplog: pytest.LogCaptureFixture) -> None:
    shards = shards_of(WEIGHT)
    with caplog.at_level("WARNING"):
        task = Node(GAT(hidden=4, embedding=4), head="convolution", exchange=Halo(neighbours=2)).fitted(shards)
    assert caplog.messages == []
    (data,) = set_up(task, shards)
    model = task.model(torch.Generator().manual_seed(0))
    example_losses(task.loss(model, data, Batch(np.arange(len(data.rows["train"]))), None)).mean().backward()
    assert all(each.grad is not None and each.grad.abs().max() > 0 for each in model.parameters())


def test_sums_alone_tell_nothing_of_edges() -> None:
    block = block_of(edges_of([(0, 1)], 6))
    given = Given(block.matrix, block.place, block.degree, block.degree_from, given=torch.zeros(6, 3))
    with pytest.raises(InputError, match=r"inputs.aggregates must be false"):
        drawn()(STATES, given)


@pytest.mark.parametrize(("option", "value"), [("hidden", 3), ("heads", 0), ("slope", 1.0)])
def test_impossible_options_are_refused(option: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"GAT\.{option} must be"):
        GAT(**{option: value})
