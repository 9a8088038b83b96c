"""Masks of linear layers: what they multiply, what they learn, and that models without any are as they were."""

import numpy as np
import pytest
import torch

from fedgraft.nn.layers import RowLinear, linear, mask, row_linear
from fedgraft.nn.propagate import Sparse


@pytest.mark.parametrize("make", [linear, row_linear])
def test_a_mask_multiplies_the_weights(make):
    layer = make(2, 2, torch.Generator().manual_seed(1))
    inputs = torch.tensor([[1.0, 2.0], [0.5, -1.0]])
    before = layer(inputs)
    mask(layer)
    assert dict(layer.named_parameters()).keys() == {"weight", "bias", "mask"}
    assert torch.equal(layer(inputs), before)
    with torch.no_grad():
        layer.mask.copy_(torch.tensor([[-1.0, 1.0], [0.0, -2.0]]))
    assert torch.equal(layer.used, layer.weight * torch.tensor([[0.0, 2.0], [1.0, -1.0]]))
    weight = layer.used.t() if isinstance(layer, RowLinear) else layer.used
    expected = torch.nn.functional.linear(inputs, weight, layer.bias)
    assert torch.allclose(layer(inputs), expected)
    assert torch.allclose(layer.product(inputs), expected - layer.bias)
    some = Sparse(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), inputs.numpy().ravel(), (2, 2), small=0)
    assert torch.allclose(layer.product(some), expected - layer.bias)


def test_the_chain_rule():
    layer = linear(1, 1, torch.Generator(), bias=False)
    mask(layer)
    with torch.no_grad():
        layer.weight.fill_(3.0)
        layer.mask.fill_(-0.5)
    layer(torch.tensor([[2.0]])).backward()
    assert (layer.weight.grad.item(), layer.mask.grad.item()) == (1.0, 6.0)


def test_every_linear_layer_below_gets_one():
    stack = torch.nn.Sequential(linear(2, 3, torch.Generator()), torch.nn.ReLU(), row_linear(3, 1, torch.Generator()))
    assert not [name for name, _ in stack.named_parameters() if "mask" in name]
    mask(stack)
    assert [name for name, _ in stack.named_parameters() if "mask" in name] == ["0.mask", "2.mask"]
