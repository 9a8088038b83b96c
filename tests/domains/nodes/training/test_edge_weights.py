"""Weights of edges: 1 is none, 2 is the edge twice, 0 is no edge; sums against dense products, and PyG's layers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, GraphConv

from fedgraft import wire
from fedgraft.contracts.abilities.smoothing import Means
from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.contracts.structure import Augmentation
from fedgraft.domains.edge_data.edge_rows import EdgeRows, both_ways
from fedgraft.domains.nodes.base.features import FeatureCoding
from fedgraft.domains.nodes.base.shards import NodeShard, cut, each_once, merge_shards
from fedgraft.domains.nodes.task.views import augmented
from fedgraft.domains.nodes.training.halo_setup import HaloSetup
from fedgraft.domains.nodes.training.mended_graph import _joined
from fedgraft.domains.nodes.training.neighbour_sampling import Neighbourhoods, Reach, Surroundings
from fedgraft.domains.nodes.training.neighbour_sums import Neighbours
from fedgraft.engine import boundary_codec
from fedgraft.engine.server.smoothing import CrossClientEdges
from fedgraft.errors import InputError, WireError
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.models.gat import GAT
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.models.gin import GIN
from fedgraft.methods.models.mlp import MLP
from fedgraft.methods.models.multigraph import Multigraph
from fedgraft.methods.models.network import Network
from fedgraft.methods.models.pyg import Pyg
from fedgraft.methods.models.sage import SAGE
from fedgraft.methods.tasks.node import Node
from fedgraft.nn.edge_modules import EdgeModule
from fedgraft.nn.propagate import Block
from helpers.edge_shards import exported
from helpers.node_runs import model_of, relayed, set_up
from helpers.stages import staged
from helpers.toy_nodes import whole

ENDS = np.array([[0, 1, 2, 3, 4, 0, 0], [1, 2, 3, 4, 0, 2, 1]])
"""A ring of five nodes, a chord, and the edge of 0 and 1 once more; node 5 has none."""
WEIGHT = np.array([0.5, 2.0, 0.25, 3.0, 1.5, 0.125, 4.0], np.float32)
OWNER = np.array([0, 0, 0, 1, 1, 1])
NAMES = ("a", "b")
ENCODERS = [GCN(embedding=4, layers=2), SAGE(hidden=4), GIN(hidden=4), Multigraph(hidden=4)]
STATES = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))


def shards_of(weight: np.ndarray | None, ends: np.ndarray = ENDS, owner: np.ndarray = 0 * OWNER) -> list[NodeShard]:
    nothing = np.zeros((ends.shape[1], 0), np.float32)
    pointers, senders, rows = both_ways(ends, nothing, 6, directed=False, weight=weight)
    graph = replace(whole([(0, 1)]), pointers=pointers, senders=senders, edge_rows=rows)
    return cut(graph, owner, NAMES[: owner.max() + 1])


def read(shard: NodeShard, most: int = 0, seed: int = 0) -> Block:
    reach = Reach([np.ones(shard.own, bool)], (most,), True, seed)
    return Neighbourhoods(shard).around(np.arange(shard.own), 1, reach)[0].block


def drawn(encoder: LayeredEncoder) -> torch.nn.Module:
    return encoder.convolution(3, 4, torch.Generator().manual_seed(0))


def dense(weight: np.ndarray = WEIGHT, ends: np.ndarray = ENDS) -> Tensor:
    adjacency = torch.zeros(6, 6)
    for (one, other), each in zip(ends.T.tolist(), weight.tolist(), strict=True):
        adjacency[one, other] += each
        adjacency[other, one] += each
    return adjacency


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda each: type(each).__name__)
def test_one_is_none_two_is_the_edge_twice_and_zero_is_no_edge(encoder: LayeredEncoder) -> None:
    module = drawn(encoder)

    def states(weight: np.ndarray | None, ends: np.ndarray = ENDS) -> Tensor:
        return module(STATES, read(shards_of(weight, ends)[0]))

    assert torch.equal(states(np.ones(7, np.float32)), states(None))
    twice = states(None, np.concatenate([ENDS, ENDS[:, :3]], 1))
    torch.testing.assert_close(states(np.array([2, 2, 2, 1, 1, 1, 1], np.float32)), twice)
    fewer = np.array([1, 0, 1, 0, 1, 1, 1], np.float32)
    assert torch.equal(states(fewer), states(None, ENDS[:, fewer > 0]))


def test_gcn_is_that_of_pyg_with_weights() -> None:
    module, layer, block = drawn(GCN()), GCNConv(3, 4), read(shards_of(WEIGHT)[0])
    layer.load_state_dict({"lin.weight": module.linear.weight, "bias": module.linear.bias})
    expected = layer(STATES, block.edge_index, block.edge_weight)
    torch.testing.assert_close(module(STATES, block), expected)
    pulled = [
        torch.autograd.grad(each.square().sum(), of)
        for each, of in ((module(STATES, block), [*module.parameters()]), (expected, [layer.lin.weight, layer.bias]))
    ]
    for one, other in zip(*pulled, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("propagate", [0, 2])
@pytest.mark.parametrize("encoder", [*ENCODERS, GAT(hidden=4, embedding=4), MLP(hidden=4)])
def test_a_trained_model_is_exported_with_weights(encoder: LayeredEncoder, propagate: int) -> None:
    shards = shards_of(WEIGHT)
    options = {
        "exchange.neighbours": 0,
        "exchange.features": False,
        "exchange.states": False,
        "inputs.propagate": propagate,
    }
    task = Node(encoder, **staged("node", options)).fitted(shards)
    model, block = model_of(task), read(shards[0])
    (data,) = set_up(task, shards)
    plain = task.plain(model, None, {})
    given = {"edge_weight": block.edge_weight, "along": torch.ones(len(block.edge_weight), dtype=torch.bool)}
    told = {name: value for name, value in given.items() if f"- `{name}`" in plain.inputs}
    found = exported(plain)(torch.from_numpy(shards[0].features), block.edge_index, **told)
    torch.testing.assert_close(found, data.scored(model), rtol=1e-4, atol=1e-5)
    assert ("edge_index, edge_weight" in plain.usage) == (encoder.reads_neighbours or propagate > 0)


def test_gin_adds_up_what_graph_conv_of_pyg_does() -> None:
    block = read(shards_of(WEIGHT)[0])
    layer = GraphConv(3, 3, bias=False)
    with torch.no_grad():
        layer.lin_rel.weight.copy_(torch.eye(3))
        layer.lin_root.weight.copy_(torch.eye(3))
    expected = layer(STATES, block.edge_index, block.edge_weight)
    torch.testing.assert_close(block.sums(STATES) + block.own(STATES), expected)


def test_sums_means_and_degrees_are_those_of_a_dense_matrix() -> None:
    block, adjacency = read(shards_of(WEIGHT)[0]), dense()
    degree = adjacency.sum(1)
    torch.testing.assert_close(block.degree, degree)
    torch.testing.assert_close(block.sums(STATES), adjacency @ STATES)
    torch.testing.assert_close(block.means(STATES), adjacency @ STATES / degree.clamp(min=1e-9)[:, None])
    root = (degree + 1).rsqrt()
    expected = root[:, None] * (adjacency + torch.eye(6)) * root @ STATES
    torch.testing.assert_close(block.smoothed(STATES), expected)


def test_drawn_edges_stand_for_the_weight_of_all() -> None:
    (shard,) = shards_of(WEIGHT)
    for seed in range(5):
        block = read(shard, 2, seed)
        sums = torch.zeros(6).index_add(0, block.edge_index[1], block.edge_weight)
        torch.testing.assert_close(sums, block.degree)
    several = torch.stack([read(shard, 2, seed).edge_times for seed in range(5)])
    assert several.std() > 0, "another edge drawn stands for more or less"
    assert torch.equal(read(shard).edge_times, torch.ones(14))


def test_a_share_of_edges_takes_its_weights_along() -> None:
    (shard,) = shards_of(WEIGHT)
    around = Neighbourhoods(shard).thinned(0.5, np.random.default_rng(0))
    (hop,) = around.around(np.arange(6), 1, Reach([np.ones(6, bool)], (0,), True))
    sums = torch.zeros(6).index_add(0, hop.block.edge_index[1], hop.block.edge_weight)
    torch.testing.assert_close(sums, hop.block.degree)
    assert 0 < len(hop.block.edge_weight) < 14


@pytest.mark.parametrize(
    "options", [{}, {"exchange.states": False}, {"exchange.states": False, "inputs.aggregates": True}], ids=str
)
@pytest.mark.parametrize("encoder", ENCODERS[:3], ids=lambda each: type(each).__name__)
def test_two_clients_compute_what_one_with_the_whole_graph_does(
    encoder: LayeredEncoder, options: dict[str, bool]
) -> None:
    if options:
        encoder = replace(encoder, layers=1)  # nobody knows what lies behind the halo
    given = {"exchange.neighbours": 0, **options}
    shards = shards_of(WEIGHT, owner=OWNER)
    task = Node(encoder, **staged("node", given)).fitted(shards)
    assert task.edge_weights
    model = model_of(task)
    for arrays in (task.publications.statistics(shard) for shard in shards):
        wire.check(arrays, task.publications.statistics_layout)
    parts = torch.cat([data.scored(model)[: data.own] for data in relayed(task, shards, model)])
    together = merge_shards(shards)
    (data,) = set_up(task, [together])
    torch.testing.assert_close(parts, data.scored(model), rtol=1e-4, atol=1e-5)
    none = [replace(shard, edge_rows=replace(shard.edge_rows, weight=None)) for shard in shards]
    plain = Node(encoder, **staged("node", given)).fitted(none)
    assert not plain.edge_weights
    other = torch.cat([data.scored(model)[: data.own] for data in relayed(plain, none, model)])
    assert (other - parts).abs().max() > 1e-2


def test_degrees_that_no_client_has_are_refused() -> None:
    rules = HaloSetup(FeatureCoding(2, False), True, weighted=True)
    published = rules.statistics(shards_of(WEIGHT, owner=OWNER)[0])
    rules.check(published)
    for wrong in (-1, np.nan, np.inf):
        degree = published["degree"].copy()
        degree[0] = wrong
        with pytest.raises(WireError, match="finite and at least 0"):
            rules.check({**published, "degree": degree})


def test_answers_are_smoothed_by_weight_over_edges_between_clients() -> None:
    shards = shards_of(WEIGHT, owner=OWNER)
    boundaries = {client: Neighbours(shard).boundary for client, shard in enumerate(shards)}
    again = {client: boundary_codec.decode(boundary_codec.encode(each), client) for client, each in boundaries.items()}
    assert all(np.array_equal(again[client].weight, boundaries[client].weight) for client in boundaries)
    joined = CrossClientEdges.of(again, 2)
    rows = np.array([[100], [-50], [20], [70]], np.int8)  # of nodes 0 and 2, 3 and 4
    means, known = joined.means(rows, np.ones(4, bool))
    assert means.ravel().tolist() == [70, 20, -50, 100], "one neighbour elsewhere each"
    assert known.all()
    answers = torch.tensor([[1.0], [0.5], [-0.5], [0.2], [0.7], [0.1]])
    ring = dense() @ answers
    expected = ring / dense().sum(1)[:, None]
    expected[5] = answers[5]
    for client, shard in enumerate(shards):
        own = slice(3 * client, 3 * client + 3)
        boundary = boundaries[client]
        whose = np.array([3 * (1 - client) + place for place in boundary.place])
        told = Means(answers.numpy()[whose], np.ones(len(whose), bool))
        found = Neighbours(shard).mean(answers[own].numpy(), told, 1)
        torch.testing.assert_close(torch.from_numpy(found), expected[own])


def test_means_of_several_neighbours_elsewhere_are_weighted() -> None:
    """All nodes are a client's own: node 0 hears from 1 by 4.5, from 4 by 1.5 and from 2 by 0.125."""
    shards = cut(_graph(), np.arange(6), tuple("abcdef"))
    joined = CrossClientEdges.of({client: Neighbours(shard).boundary for client, shard in enumerate(shards)}, 6)
    rows = np.array([[0], [10], [20], [30], [40]], np.int8)
    means, _ = joined.means(rows, np.ones(5, bool))
    assert means[0, 0] == pytest.approx((4.5 * 10 + 1.5 * 40 + 0.125 * 20) / 6.125)
    means, _ = joined.means(rows, np.array([True, False, True, True, True]))
    assert means[0, 0] == pytest.approx((1.5 * 40 + 0.125 * 20) / 1.625)


@pytest.mark.parametrize("weight", [np.nan, 0.0, -1.0, np.inf])
def test_boundaries_with_impossible_weights_are_refused(weight: float) -> None:
    boundary = Neighbours(shards_of(WEIGHT, owner=OWNER)[0]).boundary
    with pytest.raises(WireError, match="finite and above 0"):
        boundary_codec.decode(boundary_codec.encode(replace(boundary, weight=np.full(2, weight, np.float32))), 0)


def test_repeats_add_up_where_a_neighbour_counts_once() -> None:
    once = each_once(shards_of(WEIGHT)[0])
    assert once.edge_weight[once.senders[: once.pointers[1]].tolist().index(1)] == 4.5
    assert once.weighted_degree.tolist() == dense().sum(1).tolist()


@pytest.mark.parametrize(("most", "module"), [(0, "GCN"), (2, "GCN")])
def test_a_whole_network_gets_weights(most: int, module: str) -> None:
    encoder = Network(f"torch_geometric.nn:{module}", {"hidden_channels": 4, "num_layers": 2})
    shards = shards_of(WEIGHT, owner=OWNER)
    for shard in shards:
        known = np.ones(shard.own + shard.halo, bool)
        (hop,) = Surroundings(shard, known, 2).around(np.arange(3), 1, Reach([known], (most,), True))
        sums = torch.zeros(len(hop.block.degree_from)).index_add(0, hop.block.edge_index[1], hop.block.edge_weight)
        inside = sums > 0
        torch.testing.assert_close(sums[inside], hop.block.degree_from[inside])
    (shard,) = shards_of(WEIGHT)
    network = encoder.network(3, torch.Generator().manual_seed(0))
    (hop,) = Surroundings(shard, np.ones(6, bool), 2).around(np.arange(6), 1, Reach([np.ones(6, bool)], (0,), True))
    expected = network.module(STATES, *_listed(dense()))
    torch.testing.assert_close(network(STATES, hop.block), expected, rtol=1e-4, atol=1e-5)


def test_a_layer_without_weights_is_given_an_edge_as_often_as_it_is_drawn_for() -> None:
    """A weight of a million must not be a million edges."""
    seen = []

    class Counting(torch.nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            seen.append(edge_index.shape[1])
            return x

    (shard,) = shards_of(1e6 * WEIGHT)
    EdgeModule(Counting())(STATES, read(shard))
    assert seen == [14]


@pytest.mark.parametrize(
    ("encoder", "told"),
    [
        (SAGE(), ""),
        (MLP(), ""),
        (Multigraph(), ""),
        (Pyg("torch_geometric.nn:GraphConv"), ""),
        (Pyg("torch_geometric.nn:GATv2Conv"), "Pyg"),
        (Network("torch_geometric.nn:GCN", {"hidden_channels": 4, "num_layers": 1}), ""),
        (Network("torch_geometric.nn:GraphSAGE", {"hidden_channels": 4, "num_layers": 1}), "Network"),
    ],
    ids=str,
)
def test_weights_that_are_not_read_are_told(
    encoder: LayeredEncoder, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"):
        Node(encoder).fitted(shards_of(WEIGHT))
    note = f"task: edges have weights, which model {told} does not read; all others but some of 'pyg' and 'network' do."
    assert caplog.messages == [note] * bool(told)


def test_generated_neighbours_weigh_one() -> None:
    (shard,) = shards_of(WEIGHT)
    receivers = np.repeat(np.arange(6), shard.degree)
    around = _joined(receivers, shard.senders.astype(np.int64), 6, np.array([0, 0]), shard.edge_rows)
    known = np.ones(8, bool)
    (hop,) = around.around(np.array([0, 7]), 1, Reach([known], (0,), True))
    assert hop.block.degree.tolist() == [6.125 + 2, 1]
    assert sorted(hop.block.edge_weight[hop.block.edge_index[1] == 0].tolist()) == [0.125, 0.5, 1, 1, 1.5, 4]


def test_another_view_of_the_nodes_is_weighted() -> None:
    shards = shards_of(WEIGHT)
    task = Node(GCN(layers=1), exchange=Halo(features=False, states=False, neighbours=0)).fitted(shards)
    (data,) = set_up(task, shards)
    block = augmented(data, Augmentation(edges=0.4, features=0.0), 1).hops[0].block
    sums = torch.zeros(6).index_add(0, block.edge_index[1], block.edge_weight)
    torch.testing.assert_close(sums, block.degree)


@pytest.mark.parametrize("weight", [-1.0, 0.0, np.nan])
def test_stored_edges_weigh_something(weight: float) -> None:
    message = f"EdgeRows.weight must be finite and above 0, as an edge of weight 0 is none; got {weight}"
    with pytest.raises(InputError, match=message):
        EdgeRows(np.zeros((1, 0), np.float32), np.ones(1, bool), np.zeros(1, np.int64), np.full(1, weight, np.float32))


def _graph():
    pointers, senders, rows = both_ways(ENDS, np.zeros((7, 0), np.float32), 6, directed=False, weight=WEIGHT)
    return replace(whole([(0, 1)]), pointers=pointers, senders=senders, edge_rows=rows)


def _listed(adjacency: Tensor) -> tuple[Tensor, Tensor]:
    ends = adjacency.nonzero().t()
    return ends.flip(0), adjacency[ends[0], ends[1]]
