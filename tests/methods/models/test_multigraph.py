"""Multigraph: a layer by hand; what edges carry, which way they go, and those that are there twice."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgraft.contracts import Batch
from fedgraft.contracts.task import example_losses
from fedgraft.domains.edge_data.edge_rows import both_ways
from fedgraft.domains.nodes.base.shards import NodeShard, cut
from fedgraft.domains.nodes.training.neighbour_sampling import Neighbourhoods, Reach
from fedgraft.errors import InputError
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.models.gin import GIN
from fedgraft.methods.models.multigraph import Multigraph
from fedgraft.methods.tasks.node import Node
from fedgraft.nn.propagate import Block, EdgeValues, Given
from helpers import edge_shards
from helpers.blocks import block_of, edges_of
from helpers.node_runs import model_of, set_up
from helpers.toy_nodes import whole

TRANSFERS = np.array([[0, 0, 1], [1, 1, 2]])
"""Two transfers from 0 to 1, and one from 1 to 2."""
AMOUNTS = np.array([[1], [-5], [2]], np.float32)
STATES = torch.tensor([[1.0], [2.0], [4.0]])


def shard_of(transfers: np.ndarray, amounts: np.ndarray, nodes: int = 3, is_directed: bool = True) -> NodeShard:
    """One client with all nodes; a node's features are its number and 1."""
    pointers, senders, rows = both_ways(transfers, amounts, nodes, is_directed)
    graph = replace(whole([(0, 1)], [0, 1] * (nodes // 2) + [0] * (nodes % 2)), pointers=pointers, senders=senders)
    return cut(replace(graph, edge_rows=rows), np.zeros(nodes, np.int64), ("a",))[0]


def read(shard: NodeShard, most: int = 0, seed: int = 0) -> Block:
    """A layer in which all nodes receive, in their order."""
    reach = Reach([np.ones(shard.own, bool)], (most,), True, seed)
    (hop,) = Neighbourhoods(shard).around(np.arange(shard.own), 1, reach)
    return hop.block


def by_hand() -> torch.nn.Module:
    """One number a node and an edge; weights of its own for everything."""
    module = Multigraph(hidden=1).edge_convolution(1, 1, 1, torch.Generator())
    values = {"own": (2.0, 1.0), "along": (1.0, 0.5, 3.0, 10.0), "back": (-1.0, 6.0, 1.0, 100.0)}
    with torch.no_grad():
        for name, numbers in values.items():  # of a direction: U, b, E, W
            for parameter, value in zip(getattr(module, name).parameters(), numbers, strict=True):
                parameter.fill_(value)
    return module


def drawn(shard: NodeShard) -> torch.nn.Module:
    return Multigraph().edge_convolution(1, 8, shard.edge_width, torch.Generator().manual_seed(0))


def test_a_layer_by_hand() -> None:
    # Along: relu(h + 0.5 + 3 e): 1 hears 4.5 and 0 from 0, 2 hears 8.5 from 1.
    # Back: relu(-h + 6 + e): 0 hears 5 and 0 (of -1) from 1, 1 hears 4 from 2.
    found = by_hand()(STATES, read(shard_of(TRANSFERS, AMOUNTS)))
    expected = [2 + 1 + 100 * (5 + 0) / 2, 4 + 1 + 10 * (4.5 + 0) / 2 + 100 * 4, 8 + 1 + 10 * 8.5]
    assert found[:, 0].tolist() == expected


def test_a_layer_with_maxima_by_hand() -> None:
    # The messages are those above; largest are 4.5 and 8.5 along, 5 and 4 back.
    module = Multigraph(hidden=1, maxima=True).edge_convolution(1, 1, 1, torch.Generator())
    plain = by_hand()
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            module.get_parameter(name).copy_(parameter)
        module.along.largest.weight.fill_(1000)
        module.back.largest.weight.fill_(10000)
    block = read(shard_of(TRANSFERS, AMOUNTS))
    added = (module(STATES, block) - plain(STATES, block))[:, 0]
    assert added.tolist() == [50000, 4500 + 40000, 8500]


def test_maxima_leave_what_is_drawn_before_them() -> None:
    one, other = (Multigraph(maxima=each).convolution(3, 4, torch.Generator().manual_seed(0)) for each in (False, True))
    for module in (one, other):
        assert (module.along.largest is None) == (module is one)
    assert torch.equal(one.along.mean.weight, other.along.mean.weight)


def test_direction_and_numbers_of_edges_matter() -> None:
    shard = shard_of(TRANSFERS, AMOUNTS)
    module = drawn(shard)
    told = module(STATES, read(shard))
    others = {
        "turned": shard_of(TRANSFERS[::-1].copy(), AMOUNTS),
        "more": shard_of(TRANSFERS, AMOUNTS + 1),
        "both ways": shard_of(TRANSFERS, AMOUNTS, is_directed=False),
    }
    for name, other in others.items():
        moved = (module(STATES, read(other)) - told).abs().amax(1) > 1e-4
        assert moved.tolist() == [True, True, name != "both ways"], f"{name}: node 2 only ever hears along"


def test_the_order_of_repeated_edges_does_not_matter() -> None:
    shard, other = (shard_of(TRANSFERS[:, order], AMOUNTS[order]) for order in ([0, 1, 2], [2, 1, 0]))
    module = drawn(shard)
    torch.testing.assert_close(module(STATES, read(shard)), module(STATES, read(other)))


def test_two_edges_are_not_one() -> None:
    shard = shard_of(TRANSFERS, AMOUNTS)
    once = shard_of(TRANSFERS[:, 1:], AMOUNTS[1:])
    moved = (drawn(shard)(STATES, read(shard)) - drawn(shard)(STATES, read(once))).abs().amax(1)
    assert (moved > 1e-4).tolist() == [True, True, False]


def test_edges_that_carry_nothing_all_go_along() -> None:
    adjacency = edges_of([(0, 1), (1, 2)], 3)
    block = block_of(adjacency)
    module = Multigraph().convolution(1, 8, torch.Generator().manual_seed(0))
    told = replace(block, edges=EdgeValues(torch.zeros(4, 0), torch.ones(4, dtype=torch.bool)))
    assert torch.equal(module(STATES, block), module(STATES, told))
    thrice = block_of(3 * adjacency)
    torch.testing.assert_close(module(STATES, thrice), module(STATES, block), msg="as many times each: the same mean")


def star() -> NodeShard:
    """Eight nodes that pay node 0, and node 0 pays them back; amounts are those of their numbers."""
    others = np.arange(1, 9)
    paid = np.stack([others, 0 * others])
    return shard_of(np.concatenate([paid, paid[::-1]], 1), np.tile(others, 2)[:, None].astype(np.float32), 9)


def test_a_mean_over_drawn_edges_estimates_that_of_all() -> None:
    shard, states = star(), torch.arange(9.0)[:, None]
    module = drawn(shard)
    with torch.no_grad():
        whole_graph = module(states, read(shard))[0]
        found = torch.stack([module(states, read(shard, 6, seed))[0] for seed in range(600)])
    assert found.std(0).max() > 1e-3
    assert (found.mean(0) - whole_graph).abs().max() < 0.15 * whole_graph.abs().max()
    assert torch.equal(found[3], module(states, read(shard, 6, 3))[0].detach()), "equal seeds draw equal edges"


def test_sums_alone_tell_nothing_of_edges() -> None:
    block = block_of(edges_of([(0, 1)], 3))
    given = Given(block.matrix, block.place, block.degree, block.degree_from, given=torch.zeros(3, 1))
    with pytest.raises(InputError, match=r"inputs.aggregates must be false"):
        Multigraph().convolution(1, 2, torch.Generator())(STATES, given)


@pytest.mark.parametrize(("encoder", "told"), [(GIN(), True), (Multigraph(), False)])
def test_columns_of_edges_that_are_not_read_are_told_once(
    encoder: GIN | Multigraph, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    note = "task: edges carry 1 column, which model GIN does not read; model.name = 'gine', 'gat' and 'multigraph' do."
    with caplog.at_level(logging.WARNING):
        task = Node(encoder).fitted([shard_of(TRANSFERS, AMOUNTS)])
        task.fitted([shard_of(TRANSFERS, AMOUNTS)])
    assert caplog.messages == [note] * told
    assert task.edge_features == 1


@pytest.mark.parametrize("option", ["hidden", "layers"])
def test_impossible_options_are_refused(option: str) -> None:
    with pytest.raises(InputError, match=rf"Multigraph\.{option} must be >= 1; got 0"):
        Multigraph(**{option: 0})


def test_a_task_learns_from_what_edges_carry() -> None:
    shard = star()
    task = Node(Multigraph(hidden=4), exchange=Halo(neighbours=0)).fitted([shard])
    model = task.model(torch.Generator().manual_seed(0))
    (data,) = set_up(task, [shard])
    draw = Batch(np.arange(len(data.rows["train"])))
    losses = example_losses(task.loss(model, data, draw, None))
    losses.mean().backward()
    learnt = {name: each.grad for name, each in model.named_parameters()}
    assert {"convolutions.0.along.edge.weight", "convolutions.1.back.edge.weight"} <= set(learnt)
    assert all(each is not None and each.abs().max() > 0 for each in learnt.values())
    again = example_losses(task.loss(model, data, draw, None))
    assert torch.equal(again, losses)


@pytest.mark.parametrize("maxima", [False, True])
@pytest.mark.parametrize("is_directed", [False, True])
@pytest.mark.parametrize(
    ("values", "weight"),
    [(edge_shards.VALUES, None), (edge_shards.VALUES, edge_shards.WEIGHT), (np.zeros((7, 0), np.float32), None)],
)
def test_a_trained_model_is_exported(
    maxima: bool, is_directed: bool, values: np.ndarray, weight: np.ndarray | None
) -> None:
    shards = edge_shards.shards_of(weight, values, is_directed=is_directed)
    encoder = Multigraph(hidden=4, maxima=maxima)
    task = Node(encoder, exchange=Halo(neighbours=0, features=False, states=False)).fitted(shards)
    model, block = model_of(task), edge_shards.read(shards[0])
    (data,) = set_up(task, shards)
    plain = task.plain(model, None, {})
    given = {"edge_attr": block.edges.values, "edge_weight": block.edge_weight, "along": block.edges.along}
    read = {name: given[name] for name in given if f"- `{name}`" in plain.inputs}
    assert list(read) == [*["edge_attr"] * values.shape[1]][:1] + ["edge_weight"] * (weight is not None) + ["along"]
    found = edge_shards.exported(plain)(torch.from_numpy(shards[0].features), block.edge_index, **read)
    torch.testing.assert_close(found, data.scored(model), rtol=1e-4, atol=1e-5)
