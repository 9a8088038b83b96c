"""Gradients of single examples, clipped and added: by hand, and as autograd has them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.nn.clipped_gradients import clipped_gradients, each_gradient
from fedgraft.nn.layers import linear, row_linear
from fedgraft.nn.manual_gradients import cross_entropies

LABEL = torch.tensor([0, 1, 1, 2, 0])


class Net(torch.nn.Module):
    """A perceptron with the layers of `mlp`."""

    def __init__(self, widths, seed=1):
        super().__init__()
        g = torch.Generator().manual_seed(seed)
        makes = [row_linear, *[linear] * len(widths)]
        self.layers = torch.nn.ModuleList(make(a, b, g) for make, a, b in zip(makes, widths, widths[1:], strict=False))

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = layer(torch.relu(x) if number else x)
        return x


def found(net, inputs, label, longest):
    return clipped_gradients(net, list(net.layers), inputs, lambda logits: cross_entropies(logits, label), longest)


def norm(arrays):
    return float(np.sqrt(sum(np.square(array).sum() for array in arrays.values())))


def test_two_examples_by_hand():
    """Two classes, weights 0: probabilities are 1/2, so logits' gradients are (-1/2, 1/2) and the other way round."""
    net = Net([2, 2])
    for parameter in net.parameters():
        parameter.data.zero_()
    inputs = np.array([[3.0, 0.0], [0.0, 1.0]], np.float32)
    # lengths: sqrt(9 + 1) sqrt(1/2) = sqrt 5, and sqrt(1 + 1) sqrt(1/2) = 1
    whole = found(net, inputs, torch.tensor([0, 1]), 10.0)
    np.testing.assert_allclose(whole["layers.0.weight"], [[-1.5, 1.5], [0.5, -0.5]])
    np.testing.assert_allclose(whole["layers.0.bias"], [0.0, 0.0], atol=1e-15)
    short = found(net, inputs, torch.tensor([0, 1]), 1.0)
    np.testing.assert_allclose(short["layers.0.weight"], [[-1.5 / 5**0.5, 1.5 / 5**0.5], [0.5, -0.5]])
    np.testing.assert_allclose(short["layers.0.bias"], np.array([-0.5, 0.5]) * (1 / 5**0.5 - 1))


@pytest.mark.parametrize("widths", [[4, 3], [4, 6, 5, 3]])
def test_each_by_itself_is_what_the_sum_of_one_is(widths):
    net, inputs = Net(widths), np.random.default_rng(3).normal(size=(5, 4)).astype(np.float32)
    each = each_gradient(net, list(net.layers), inputs, lambda logits: cross_entropies(logits, LABEL))
    assert each.keys() == dict(net.named_parameters()).keys()
    for place in range(5):
        one = found(net, inputs[place : place + 1], LABEL[place : place + 1], 1e9)
        for name, array in one.items():
            np.testing.assert_allclose(each[name][place], array, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("widths", [[4, 3], [4, 6, 3], [4, 6, 5, 3]])
@pytest.mark.parametrize("longest", [0.3, 1e6])
def test_the_sum_is_that_of_autograds_gradients_one_by_one(widths, longest):
    net, g = Net(widths), np.random.default_rng(2)
    inputs = g.normal(size=(5, 4)).astype(np.float32)
    expected = {name: np.zeros(tuple(each.shape)) for name, each in net.named_parameters()}
    exact = Net(widths).double()
    for row, label in zip(inputs, LABEL, strict=True):
        exact.zero_grad()
        torch.nn.functional.cross_entropy(exact(torch.from_numpy(row)[None].double()), label[None]).backward()
        one = {name: each.grad.numpy().copy() for name, each in exact.named_parameters()}
        factor = min(1.0, longest / norm(one))
        for name, array in one.items():
            expected[name] += factor * array
    made = found(net, inputs, LABEL, longest)
    assert made.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(made[name], array, rtol=1e-9, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 4), st.floats(1e-3, 10), st.floats(1e-3, 1e6), st.integers(0, 2**31), st.booleans())
def test_one_example_more_moves_the_sum_by_no_more_than_the_clipped_length(place, longest, size, seed, deep):
    net, g = Net([4, 6, 3] if deep else [4, 3], seed % 100), np.random.default_rng(seed)
    inputs = (g.normal(size=(5, 4)) * size).astype(np.float32)
    others = np.arange(5) != place
    moved, rest = found(net, inputs, LABEL, longest), found(net, inputs[others], LABEL[others], longest)
    assert norm({name: moved[name] - rest[name] for name in moved}) <= longest * (1 + 1e-6)
