"""Layers and whole networks of PyTorch Geometric, and one's own, over edges that carry columns."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATv2Conv, GINEConv

from fedgraft.contracts import Batch
from fedgraft.contracts.encoder import EdgeLayeredEncoder, NetworkEncoder
from fedgraft.contracts.task import example_losses
from fedgraft.domains.nodes.base.shards import merge_shards
from fedgraft.domains.nodes.training.neighbour_sampling import Reach, Surroundings
from fedgraft.errors import InputError
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.models.network import Network
from fedgraft.methods.models.pyg import Pyg
from fedgraft.methods.tasks.node import Node
from fedgraft.nn.edge_modules import EdgeModule
from helpers.edge_shards import OWNER, STATES, VALUES, WEIGHT, exported, read, shards_of
from helpers.node_runs import model_of, relayed, set_up

LAYERS = ["GINEConv", "GATv2Conv", "GATConv", "TransformerConv", "NNConv", "GENConv"]


class Own(nn.Module):
    """A layer of one's own that is told nothing of columns before: it takes two, and weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.own, self.edge = nn.Linear(inputs, outputs), nn.Linear(2, outputs)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        own = self.own(x)
        sent = own[edge_index[0]] + (0 if edge_attr is None else self.edge(edge_attr))
        return own.index_add(0, edge_index[1], sent * edge_weight[:, None])


class Net(nn.Module):
    """A network of two convolutions that need columns."""

    def __init__(self, inputs: int, edge_dim: int = 2, second: bool = True) -> None:
        super().__init__()
        self.first = GATv2Conv(inputs, 4, edge_dim=edge_dim)
        self.second = GINEConv(nn.Linear(4, 4), edge_dim=edge_dim) if second else None

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        hidden = torch.relu(self.first(x, edge_index, edge_attr))
        return hidden if self.second is None else self.second(hidden, edge_index, edge_attr)


def layer_of(module: str, edge_width: int = 2, **options: object) -> nn.Module:
    encoder = Pyg(module, options)
    return encoder.edge_convolution(3, 4, edge_width, torch.Generator().manual_seed(0)).eval()


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_of_pyg_is_given_columns(name: str) -> None:
    layer, block = layer_of(f"torch_geometric.nn:{name}"), read(shards_of()[0])
    expected = layer.module(STATES, block.edge_index, edge_attr=block.edges.values)
    torch.testing.assert_close(layer(STATES, block), expected)
    others = layer(STATES, read(shards_of(values=-2 * VALUES)[0]))
    assert (others - expected)[:5].abs().amax(1).min() > 1e-5
    torch.testing.assert_close(others[5], expected[5])


def test_a_layer_of_ones_own_is_given_columns_and_weights() -> None:
    module = f"{__name__}:Own"
    layer, block = layer_of(module), read(shards_of(WEIGHT)[0])
    expected = layer.module(STATES, block.edge_index, block.edge_weight, block.edges.values)
    torch.testing.assert_close(layer(STATES, block), expected)
    assert Pyg(module).reads(3, 2) == {"columns", "weights"}


def test_a_layer_without_columns_is_made_without() -> None:
    assert layer_of("torch_geometric.nn:GATv2Conv", 0).module.edge_dim is None
    assert "edge" not in dict(layer_of("torch_geometric.nn:SAGEConv").named_parameters())
    with pytest.raises(InputError, match=r"called as module\(x, edge_index\) \(edges carry no columns here\)"):
        layer_of("torch_geometric.nn:GINEConv", 0)


def test_drawn_edges_are_repeated_with_their_columns() -> None:
    seen = []

    class Counting(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
            seen.append((edge_index.shape[1], len(edge_attr)))
            return x

    EdgeModule(Counting(), 2)(STATES, read(shards_of()[0], 2))
    assert seen[0][0] == seen[0][1] >= 12


ENCODERS = [
    Pyg("torch_geometric.nn:GATv2Conv", {"heads": 2}, hidden=4),
    Pyg("torch_geometric.nn:GINEConv", {}, hidden=4),
    Pyg(f"{__name__}:Own", {}, hidden=4),
    Network(f"{__name__}:Net"),
]


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda each: each.module.split(":")[1])
def test_a_task_learns_from_columns(
    encoder: EdgeLayeredEncoder | NetworkEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    shards = shards_of()
    with caplog.at_level("WARNING"):
        task = Node(encoder, exchange=Halo(neighbours=0)).fitted(shards)
    assert caplog.messages == []
    (data,) = set_up(task, shards)
    model = task.model(torch.Generator().manual_seed(0))
    example_losses(task.loss(model, data, Batch(np.arange(len(data.rows["train"]))), None)).mean().backward()
    named = {name: each.grad for name, each in model.named_parameters() if "edge" in name}
    assert named or "GINE" in encoder.module
    assert all(grad is not None and grad.abs().max() > 0 for grad in named.values())
    edges = torch.tensor([[0, 1], [1, 0]])
    given = task.views.on_graph(model, torch.from_numpy(shards[0].features), edges.numpy())
    assert torch.isfinite(given).all(), "of a graph whose edges carry nothing columns are zeros"


@pytest.mark.parametrize("encoder", ENCODERS[:3], ids=lambda each: each.module.split(":")[1])
def test_two_clients_compute_what_one_with_all_does(encoder: EdgeLayeredEncoder) -> None:
    shards = shards_of(owner=OWNER)
    task = Node(encoder, exchange=Halo(neighbours=0)).fitted(shards)
    model = model_of(task)
    parts = torch.cat([data.scored(model)[: data.own] for data in relayed(task, shards, model)])
    (data,) = set_up(task, [merge_shards(shards)])
    torch.testing.assert_close(parts, data.scored(model), rtol=1e-4, atol=1e-5)


def test_a_whole_network_gets_columns_of_edges_in_reach() -> None:
    encoder = Network(f"{__name__}:Net", {"second": False})
    assert (encoder.reach(3, 2), encoder.reads(3, 2)) == (1, {"columns"})
    network = encoder.network(3, torch.Generator().manual_seed(0), 2)
    (whole,) = shards_of()
    block = read(whole)
    expected = network.module(STATES, block.edge_index, block.edges.values)
    for shard in shards_of(owner=OWNER):
        known = np.ones(shard.own + shard.halo, bool)
        (hop,) = Surroundings(shard, known, 1).around(np.arange(3), 1, Reach([known], (0,), True))
        numbers = {0: [0, 1, 2], 1: [3, 4, 5]}[int(shard.ids[0]) // 3]
        halo = [3 * int(owner) + int(place) for owner, place in zip(shard.halo_owner, shard.halo_place, strict=True)]
        rows = np.array(numbers + halo)[np.concatenate([hop.fresh, hop.stored])]
        torch.testing.assert_close(network(STATES[rows], hop.block), expected[numbers], rtol=1e-4, atol=1e-5)


def test_an_edge_to_a_node_elsewhere_is_turned_with_its_columns() -> None:
    for is_directed in (True, False):
        shard = shards_of(WEIGHT, owner=OWNER, is_directed=is_directed)[0]
        known = np.ones(shard.own + shard.halo, bool)
        (hop,) = Surroundings(shard, known, 2).around(np.arange(3), 1, Reach([known], (0,), True))
        told, nodes = hop.block.edges, np.concatenate([hop.fresh, hop.stored])
        sender, receiver = (nodes[ends.numpy()] for ends in hop.block.edge_index)
        listed = {
            (int(by), int(to), tuple(values), along, weight)
            for by, to, values, along, weight in zip(
                sender, receiver, told.values.tolist(), told.along.tolist(), told.weight.tolist(), strict=True
            )
        }
        assert len(listed) == len(sender)
        back = {(to, by, values, along != is_directed, weight) for by, to, values, along, weight in listed}
        assert back == listed


def test_a_network_without_columns_that_needs_some_says_so() -> None:
    with pytest.raises(InputError, match="needs 'edge_attr', and edges have no features in this task"):
        Node(Network(f"{__name__}:Net")).fitted(shards_of(values=np.zeros((7, 0), np.float32))).model(torch.Generator())


def test_a_network_that_does_not_use_columns_is_named(caplog: pytest.LogCaptureFixture) -> None:
    options = {"hidden_channels": 4, "num_layers": 2}
    with caplog.at_level("WARNING"):
        Node(Network("torch_geometric.nn:GraphSAGE", options)).fitted(shards_of())
    assert "edges carry 2 columns, which model Network does not read" in caplog.text


def test_a_whole_network_is_exported_with_columns() -> None:
    encoder, shards = Network(f"{__name__}:Net"), shards_of()
    task = Node(encoder, exchange=Halo(neighbours=0, features=False, states=False)).fitted(shards)
    model, block = model_of(task), read(shards[0])
    (data,) = set_up(task, shards)
    found = exported(task.plain(model, None, {}))(
        torch.from_numpy(shards[0].features), block.edge_index, block.edges.values
    )
    torch.testing.assert_close(found, data.scored(model), rtol=1e-4, atol=1e-5)
