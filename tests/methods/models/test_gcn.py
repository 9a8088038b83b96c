"""GCN: a convolution without edge features by hand."""

import math

import torch

from fedgraft.methods.models.gcn import GCN
from helpers.blocks import block_of, edges_of


def test_a_convolution_by_hand():
    path = block_of(edges_of([(0, 1), (1, 2)], 3))
    module = GCN().convolution(1, 1, torch.Generator())
    with torch.no_grad():
        module.linear.weight.fill_(1.0)
        module.linear.bias.fill_(0.0)
    found = module(torch.tensor([[1.0], [2.0], [4.0]]), path)[:, 0]
    edge = 1 / math.sqrt(2 * 3)  # degrees 1 and 2, and each node is a neighbour of itself
    torch.testing.assert_close(found, torch.tensor([1 / 2 + 2 * edge, 2 / 3 + 5 * edge, 4 / 2 + 2 * edge]))
