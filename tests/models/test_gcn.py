"""GCN: a convolution without edge features by hand."""

import math

import numpy as np
import torch

from fedgraft.models.gcn import GCN
from fedgraft.propagate import Undirected


def test_a_convolution_by_hand():
    path = Undirected(np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1]), np.array([1, 2, 1]))
    module = GCN().convolution(1, 1, torch.Generator())
    with torch.no_grad():
        module.linear.weight.fill_(1.0)
        module.linear.bias.fill_(0.0)
    found = module(torch.tensor([[1.0], [2.0], [4.0]]), path)[:, 0]
    half = 1 / math.sqrt(2)
    torch.testing.assert_close(found, torch.tensor([1 + 2 * half, 2 + 5 * half, 4 + 2 * half]))
