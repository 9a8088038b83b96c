"""Layers of PyTorch Geometric: what they give on the whole graph, on parts of it, and what is refused."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv, GINConv, MessagePassing

from fedgraft.errors import InputError
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.models.pyg import Pyg
from fedgraft.nn.propagate import Block, Sparse
from helpers.blocks import block_of, edges_of
from laws.encoders import check_encoder

PATH = block_of(edges_of([(0, 1), (1, 2)], 4))
"""Three nodes in a row, and one alone."""
EDGE_INDEX = torch.tensor([[1, 0, 2, 1], [0, 1, 1, 2]])
STATES = torch.tensor([[1.0, 0.0], [2.0, 1.0], [4.0, 0.0], [8.0, 3.0]])


class Sums(GINConv):
    """A layer of sums of one's own."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(nn.Linear(inputs, outputs))


class Totals(MessagePassing):
    """One that has no weights: the sum of a node's neighbours."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__("sum")
        self.scale = nn.Parameter(torch.ones(1, outputs))

    def forward(self, x, edge_index):
        return self.scale * self.propagate(edge_index, x=x)


class Wide(nn.Linear):
    """A layer that looks at no edge and takes none."""


def layer_of(module, inputs=2, outputs=3, **options):
    return Pyg(module=module, options=options).convolution(inputs, outputs, torch.Generator().manual_seed(1))


def test_a_block_lists_its_edges_from_senders_to_receivers():
    assert PATH.edge_index.tolist() == EDGE_INDEX.tolist()
    assert PATH.edge_weight.tolist() == [1.0] * 4


@pytest.mark.parametrize("improved", [False, True])
def test_a_gcn_of_a_whole_graph_gives_what_it_gives_alone(improved):
    layer = layer_of("torch_geometric.nn:GCNConv", improved=improved)
    alone = GCNConv(2, 3, improved=improved)
    alone.load_state_dict(layer.module.state_dict())
    torch.testing.assert_close(layer(STATES, PATH), alone(STATES, EDGE_INDEX, torch.ones(4)))


def test_our_gcn_with_the_same_weights_gives_the_same():
    theirs, ours = GCNConv(2, 3), GCN(hidden=3, layers=1).convolution(2, 3, torch.Generator())
    with torch.no_grad():
        ours.linear.weight.copy_(theirs.lin.weight)
        ours.linear.bias.copy_(theirs.bias.normal_())
    torch.testing.assert_close(ours(STATES, PATH), theirs(STATES, EDGE_INDEX))


@pytest.mark.parametrize("module", ["GCNConv", "SAGEConv", "GATv2Conv", "TransformerConv", "GraphConv"])
def test_some_receivers_get_what_they_get_among_all(module):
    layer = layer_of(f"torch_geometric.nn:{module}")
    both = Sparse(*(torch.tensor(each).numpy() for each in ([0, 0, 1], [2, 0, 1], [1.0, 1.0, 1.0])), (2, 4))
    part = Block(both, torch.tensor([1, 2]), torch.tensor([2.0, 1.0]), PATH.degree)  # nodes 1 and 2 of the path
    torch.testing.assert_close(layer(STATES, part), layer(STATES, PATH)[1:3])


def test_two_receivers_that_are_one_sender_have_neighbours_of_their_own():
    layer = layer_of(f"{__name__}:Totals", 2, 2)
    times = Sparse(*(torch.tensor(each).numpy() for each in ([0, 1], [1, 2], [3.0, 1.0])), (2, 3))
    block = Block(times, torch.tensor([0, 0]), torch.tensor([3.0, 1.0]), torch.tensor([3.0, 1.0, 1.0]))
    # three times node 1, and once node 2
    assert layer(STATES[:3], block).tolist() == [[6.0, 3.0], [4.0, 0.0]]


@pytest.mark.parametrize(
    ("module", "options"),
    [
        ("torch_geometric.nn:SAGEConv", {}),
        ("torch_geometric.nn:GATv2Conv", {"heads": 2}),
        ("torch_geometric.nn:TransformerConv", {"heads": 2, "concat": False}),
        (f"{__name__}:Sums", {}),
    ],
)
def test_any_convolution_keeps_the_laws_of_encoders(module, options):
    check_encoder(Pyg, module=module, options=options, hidden=8)


def test_heads_that_do_not_divide_a_width_are_averaged():
    assert layer_of("torch_geometric.nn:GATv2Conv", heads=2)(STATES, PATH).shape == (4, 3)
    assert layer_of("torch_geometric.nn:GATv2Conv", 2, 4, heads=2).module.out_channels == 2


@pytest.mark.parametrize(
    ("module", "options", "said"),
    [
        ("GCNConv", {}, r"Pyg\.module must be 'package\.module:Class'; 'GCNConv' cannot be imported"),
        ("torch_geometric.nn:Nothing", {}, r"has no attribute 'Nothing'"),
        ("torch_geometric.nn:global_add_pool", {}, r"must be a class of torch\.nn\.Module"),
        ("torch_geometric.nn:GCNConv", {"head": 2}, r"cannot be made as Class\(2, 3, head=2\): TypeError"),
        ("torch_geometric.nn:GraphSAGE", {"num_layers": 2}, r"must be one convolution, .* it looks further"),
        (f"{__name__}:Wide", {}, r"cannot be called as module\(x, edge_index\): TypeError"),
        ("torch_geometric.nn:GATConv", {"heads": 2, "concat": 0, "bias": False, "edge_dim": 1}, None),
    ],
)
def test_what_is_no_layer_is_refused(module, options, said):
    if said is None:
        assert layer_of(module, **options)(STATES, PATH).shape == (4, 3)
        return
    with pytest.raises(InputError, match=said):
        layer_of(module, **options)
