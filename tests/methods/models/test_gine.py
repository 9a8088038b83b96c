"""GINE: a layer by hand, PyG's layer with the same weights, and a trained model as PyG's."""

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import GINEConv

from fedgraft.contracts import Batch
from fedgraft.contracts.task import example_losses
from fedgraft.errors import InputError
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.models.gine import GINE
from fedgraft.methods.tasks.node import Node
from fedgraft.nn.propagate import Block
from helpers.blocks import block_of, edges_of
from helpers.edge_shards import OWNER, STATES, WEIGHT, exported, read, shards_of
from helpers.node_runs import model_of, relayed, set_up

MODULE_SEED = 3


def drawn(edge_width: int = 2, epsilon: float = 0.5) -> nn.Module:
    return GINE(epsilon=epsilon).edge_convolution(3, 4, edge_width, torch.Generator().manual_seed(MODULE_SEED))


def pyg(module: nn.Module, epsilon: float = 0.5) -> GINEConv:
    layer = GINEConv(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4)), eps=epsilon, edge_dim=2)
    ours = {"nn.0": module.inner, "nn.2": module.outer, "lin": module.edge}
    weights = {f"{name}.{part}": getattr(each, part) for name, each in ours.items() for part in ("weight", "bias")}
    layer.load_state_dict({**weights, "eps": torch.tensor([epsilon])})
    return layer


def test_a_layer_by_hand() -> None:
    module = GINE(hidden=1, epsilon=0.5).convolution(1, 1, torch.Generator())
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), (2.0, -10.0, 3.0, 1.0), strict=True):
            parameter.fill_(value)
    states = torch.tensor([[-1.0], [2.0], [4.0]])
    # 1.5 h + sum of relu(h) of neighbours: 0.5, 7, 8; then 3 relu(2 x - 10) + 1.
    block = block_of(edges_of([(0, 1), (1, 2)], 3))
    assert module(states, block)[:, 0].tolist() == [1.0, 13.0, 19.0]


def test_it_is_that_of_pyg_and_its_gradient_is_autograds() -> None:
    module, block, states = drawn(), read(shards_of()[0]), STATES.clone().requires_grad_()
    layer = pyg(module)
    found, expected = module(states, block), layer(states, block.edge_index, block.edges.values)
    torch.testing.assert_close(found, expected)
    ours = [states, module.edge.weight, module.edge.bias, module.inner.weight, module.outer.bias]
    theirs = [states, layer.lin.weight, layer.lin.bias, layer.nn[0].weight, layer.nn[2].bias]
    pull = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    for one, other in zip(
        torch.autograd.grad(found, ours, pull), torch.autograd.grad(expected, theirs, pull), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_weights_multiply_messages() -> None:
    module, block = drawn(), read(shards_of(WEIGHT)[0])
    messages = torch.relu(STATES[block.edge_index[0]] + module.edge(block.edges.values)) * block.edge_weight[:, None]
    sums = torch.zeros(6, 3).index_add(0, block.edge_index[1], messages)
    expected = module.outer(torch.relu(module.inner(1.5 * STATES + sums)))
    torch.testing.assert_close(module(STATES, block), expected)


def test_columns_that_a_graph_does_not_have_are_zeros() -> None:
    """Such as one that is drawn to compare models."""
    module, block = drawn(), block_of(edges_of([(0, 1), (1, 2)], 6))
    zeros = pyg(module)(STATES, block.edge_index, torch.zeros(4, 2))
    torch.testing.assert_close(module(STATES, block), zeros)


def test_drawn_edges_stand_for_all() -> None:
    (shard,) = shards_of()
    module = drawn()
    with torch.no_grad():
        found = torch.stack([module(STATES, read(shard, 2, seed)) for seed in range(3)])
    assert found.std(0).max() > 1e-3


def test_two_clients_compute_what_one_with_all_does() -> None:
    shards = shards_of(WEIGHT, owner=OWNER)
    task = Node(GINE(hidden=4), exchange=Halo(neighbours=0)).fitted(shards)
    model = model_of(task)
    parts = torch.cat([data.scored(model)[: data.own] for data in relayed(task, shards, model)])
    (data,) = set_up(task, [task.pooled(shards)])
    torch.testing.assert_close(parts, data.scored(model), rtol=1e-4, atol=1e-5)


def test_a_task_learns_from_columns() -> None:
    shards = shards_of()
    task = Node(GINE(hidden=4), exchange=Halo(neighbours=0)).fitted(shards)
    (data,) = set_up(task, shards)
    model = task.model(torch.Generator().manual_seed(0))
    example_losses(task.loss(model, data, Batch(np.arange(len(data.rows["train"]))), None)).mean().backward()
    assert all(each.grad is not None and each.grad.abs().max() > 0 for each in model.parameters())


@pytest.mark.parametrize("width", [2, 0])
def test_a_trained_model_is_exported(width: int) -> None:
    shards = shards_of(values=np.zeros((7, 0), np.float32)) if not width else shards_of()
    task = Node(GINE(hidden=4), exchange=Halo(neighbours=0, features=False, states=False)).fitted(shards)
    model = model_of(task)
    (data,) = set_up(task, shards)
    block: Block = read(shards[0])
    more = (block.edges.values,) if width else ()
    plain = task.plain(model, None, {})
    assert ("edge_attr" in plain.inputs) == ("edge_attr" in plain.usage) == bool(width)
    found = exported(plain)(torch.from_numpy(shards[0].features), block.edge_index, *more)
    torch.testing.assert_close(found, data.scored(model))


@pytest.mark.parametrize("option", ["hidden", "layers"])
def test_impossible_options_are_refused(option: str) -> None:
    with pytest.raises(InputError, match=rf"GINE\.{option} must be >= 1; got 0"):
        GINE(**{option: 0})
