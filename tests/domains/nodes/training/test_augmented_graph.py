"""Views of a client's graph: what is left out, and that nothing changes the graph itself."""

import numpy as np
import pytest
import torch

from fedgraft.contracts import Augmentation
from fedgraft.domains.nodes.task.views import augmented, masked
from fedgraft.methods.data.blocks import Blocks
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.tasks.node import Node
from fedgraft.nn.propagate import Sparse, Stacked


@pytest.fixture(scope="module")
def prepared():
    shards = Blocks(nodes=120, classes=3, clients=2, features=40).load(1)
    task = Node(GCN(hidden=8), head="convolution", exchange=Halo(states=False, features=False)).fitted(shards)
    return task, task.prepare(shards[0], {})


def test_nothing_left_out_is_the_graph(prepared):
    _task, data = prepared
    assert augmented(data, Augmentation(), 3) is data.whole()


def test_edges_go_and_the_same_seed_leaves_out_the_same(prepared):
    _task, data = prepared
    edges = data.around.edges.shape[1]
    left = [data.around.thinned(0.8, np.random.default_rng(seed)).edges for seed in (1, 1, 2)]
    assert np.array_equal(left[0], left[1])
    assert not np.array_equal(left[0], left[2])
    assert left[0].shape[1] == pytest.approx(0.2 * edges, rel=0.25)
    assert {*map(tuple, left[0].T.tolist())} <= {*map(tuple, data.around.edges.T.tolist())}
    assert data.around.edges.shape[1] == edges


def test_a_node_that_lost_its_edges_counts_as_one_without(prepared):
    _task, data = prepared
    alone = data.around.thinned(0.0, np.random.default_rng(0))
    assert np.array_equal(alone.edges, data.around.edges)
    bare = data.around.thinned(1.0, np.random.default_rng(0))
    assert bare.edges.shape == (2, 0)
    assert bare.most == 0


def test_columns_of_features_go_for_all_nodes(prepared):
    _task, data = prepared
    inputs = augmented(data, Augmentation(features=0.5), 4).inputs.dense
    there, before = (inputs != 0).any(0), data.whole().inputs.dense
    assert 0 < int(there.sum()) < 40
    assert torch.equal(inputs[:, there], before[:, there])


def test_states_under_a_view_are_of_all_nodes_and_have_gradients(prepared):
    task, data = prepared
    model = task.model(torch.Generator().manual_seed(0))
    whole, view = (task.views.states(model, data, left_out, 5) for left_out in (Augmentation(), Augmentation(0.5, 0.5)))
    assert whole.shape == view.shape == (data.own, task.views.hidden_width)
    assert not torch.equal(whole, view)
    view.sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in list(model.parameters())[:1])


def test_all_kinds_of_inputs_are_masked_alike():
    dense, kept = torch.tensor([[1.0, 2.0, 0.0], [0.0, 4.0, 5.0]]), torch.tensor([1.0, 0.0, 1.0])
    rows, columns = (each.numpy() for each in dense.nonzero(as_tuple=True))
    sparse = Sparse(rows, columns, dense.numpy()[rows, columns], (2, 3))
    listed = Sparse(rows, columns, dense.numpy()[rows, columns], (2, 3), small=0)
    for inputs in (dense, Stacked(dense[:1], dense[1:]), sparse, listed):
        found = masked(inputs, kept)
        assert torch.equal(found if isinstance(found, torch.Tensor) else found.dense, dense * kept)
