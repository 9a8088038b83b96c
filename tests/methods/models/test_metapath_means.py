"""Metapath means over edges that carry something: by hand, and with the gradient that autograd finds."""

import numpy as np
import pytest
import scipy.sparse
import torch

from fedgraft.contracts.encoder import CARRIED, Paths
from fedgraft.methods.models.metapath_means import MetapathMeans, PathMessages
from fedgraft.nn.propagate import Sparse

JOINED = np.array([[0, 1, 1], [0, 1, 0], [1, 0, 1], [0, 0, 0]], np.float32) * np.array([1, 2, 0.5], np.float32)
"""Who sends to whom of four nodes, and how much it counts; node 1 sends to itself, and nobody to node 3."""


def paths(width: int = 2) -> Paths:
    matrix = scipy.sparse.csr_matrix(np.pad(JOINED, ((0, 0), (0, 1))))
    values = np.random.default_rng(1).normal(size=(matrix.nnz, width)).astype(np.float32)
    return Paths(matrix, values)


def test_a_message_by_hand() -> None:
    told = Paths(
        scipy.sparse.csr_matrix(np.array([[0, 1], [3, 1]], np.float32)), np.array([[2], [-4], [1]], np.float32)
    )
    encoder = MetapathMeans(hidden=1, layers=1)
    module = encoder.build(1, [1], torch.Generator().manual_seed(0))
    with torch.no_grad():
        for name, value in {"own.weight": 1, "own.bias": 0.5, "means.0.weight": 2, "means.0.bias": 1}.items():
            module.get_parameter(name).fill_(value)
        module.get_parameter("carried.0.weight").fill_(1)
        found = module(torch.tensor([[1.0], [10.0]]), [encoder.carried_graph(told)])
    first = 1.5 + (2 * 10 + 1 + 2)  # node 1 sends relu(20 + 1 + 2)
    second = 10.5 + (3 * 0 + 1 * (20 + 1 + 1)) / 4  # of node 0 nothing is left of 2 + 1 - 4
    assert found.flatten().tolist() == [first, second]


@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_gradient_is_autograd_s(is_sparse: bool) -> None:
    told, encoder = paths(), MetapathMeans(hidden=5)
    module = encoder.build(3, [2], torch.Generator().manual_seed(2))
    g = torch.Generator().manual_seed(3)
    x, weights = torch.randn(4, 3, generator=g), torch.randn(4, 5, generator=g)
    rows, columns = x.nonzero().T.numpy()
    features = Sparse(rows, columns, x[rows, columns].numpy(), (4, 3), small=0) if is_sparse else x
    found = module(features, [encoder.carried_graph(told)])
    (found * weights).sum().backward()
    gradients = {name: each.grad.clone() for name, each in module.named_parameters()}
    module.zero_grad()
    p = dict(module.named_parameters())
    entries = told.matrix.tocoo()
    sender, receiver = torch.tensor(entries.col).long(), torch.tensor(entries.row).long()
    mapped = x @ p["means.0.weight"] + p["means.0.bias"]
    messages = torch.relu(mapped[sender] + torch.tensor(told.values) @ p["carried.0.weight"].t())
    weight = torch.tensor(entries.data)[:, None]
    total = torch.zeros(4, 1).index_add(0, receiver, weight).clamp(min=1e-9)
    means = torch.zeros(4, 5).index_add(0, receiver, messages * weight) / total
    state = torch.relu(x @ p["own.weight"] + p["own.bias"] + means)
    wanted = torch.relu(state @ p["outer.weight"].t() + p["outer.bias"])
    (wanted * weights).sum().backward()
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    for name, each in module.named_parameters():
        torch.testing.assert_close(gradients[name], each.grad, rtol=1e-4, atol=1e-5, msg=name)


def test_weights_alone_weigh_means() -> None:
    encoder, told = MetapathMeans(hidden=4), paths(0)
    graph = encoder.carried_graph(told)
    assert isinstance(graph, Sparse)
    np.testing.assert_allclose((graph @ torch.eye(4))[0].numpy(), [0, 2 / 2.5, 0.5 / 2.5, 0], rtol=1e-6)
    assert not (graph @ torch.eye(4))[1].any(), "its own does not count"
    assert isinstance(encoder.carried_graph(paths(1)), PathMessages)


def test_what_it_reads_and_what_it_draws() -> None:
    assert MetapathMeans().reads(3, 2) == {*CARRIED}
    assert MetapathMeans(edges=False).reads(3, 2) == frozenset()
    drawn = MetapathMeans().build(3, (0, 0), torch.Generator().manual_seed(1)).state_dict()
    names = ["own.weight", "own.bias", "means.0.weight", "means.1.weight", "outer.weight", "outer.bias"]
    assert [*drawn] == names
