"""Gradients written by hand: examples that can be checked on paper."""

import math

import numpy as np
import pytest
import torch

from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.models.gin import GIN
from fedgraft.methods.models.sage import SAGE
from fedgraft.nn.layers import linear, row_linear
from fedgraft.nn.manual_gradients import WithBack, cross_entropies, gradient_of, relu_back
from fedgraft.nn.propagate import Block
from fedgraft.nn.sparse import Sparse
from helpers.blocks import block_of, edges_of

G = torch.Generator()
PATH = block_of(edges_of([(0, 1), (1, 2)], 4))
"""Three nodes in a row, and one alone."""
STATES = torch.tensor([[1.0], [2.0], [4.0], [8.0]])
GRADIENT = torch.tensor([[1.0], [10.0], [100.0], [1000.0]])


def ready(module):
    """Weights of 2, biases of 0, gradients of what a step before may have left."""
    for name, parameter in module.named_parameters():
        parameter.data.fill_(0.0 if name.endswith("bias") else 2.0)
        parameter.grad = torch.full_like(parameter, math.nan)
    return module


def back_through(module, state, further=True, block=PATH):
    with torch.no_grad():
        output, back = module.with_back(state, block)
        return output, back(GRADIENT[: len(output)], further)


def gradients(module):
    return {name: parameter.grad.flatten().tolist() for name, parameter in module.named_parameters()}


def test_sage_by_hand():
    module = ready(SAGE(hidden=1).convolution(1, 1, G))
    output, before = back_through(module, STATES)
    # means of neighbours: 2, 2.5, 2, none
    assert output[:, 0].tolist() == [6.0, 9.0, 12.0, 16.0]
    own, mean = 1 * 1 + 2 * 10 + 4 * 100 + 8 * 1000, 2 * 1 + 2.5 * 10 + 2 * 100
    assert gradients(module) == {"own.weight": [own], "own.bias": [1111.0], "mean.weight": [mean]}
    # a node's own output, and half of that of the middle one, or all of those of both ends
    assert before[:, 0].tolist() == [2 * (1 + 5), 2 * (10 + 1 + 100), 2 * (100 + 5), 2 * 1000]


def test_gcn_by_hand():
    module = ready(GCN(embedding=1).convolution(1, 1, G))
    output, before = back_through(module, STATES)
    edge = math.sqrt(1 / (2 * 3))  # between an end, of degree 1, and the middle, of degree 2
    gathered = [1 / 2 + 2 * edge, 2 / 3 + 5 * edge, 4 / 2 + 2 * edge, 8]
    np.testing.assert_allclose(output[:, 0], 2 * np.array(gathered), rtol=1e-6)
    found = gradients(module)
    assert found["linear.bias"] == [1111.0]
    assert found["linear.weight"] == pytest.approx([np.dot(gathered, GRADIENT[:, 0].numpy())])
    expected = [2 * (1 / 2 + 10 * edge), 2 * (10 / 3 + 101 * edge), 2 * (100 / 2 + 10 * edge), 2 * 1000]
    np.testing.assert_allclose(before[:, 0], expected, rtol=1e-6)


@pytest.mark.parametrize("encoder", [SAGE(hidden=1), GCN(embedding=1)])
def test_nothing_goes_further_unless_it_is_asked_for(encoder):
    module = ready(encoder.convolution(1, 1, G))
    assert back_through(module, STATES, further=False)[1] is None


def test_receivers_that_are_other_nodes_than_the_first_are_found_again():
    matrix = Sparse(np.array([0, 0]), np.array([0, 1]), np.ones(2, np.float32), (1, 3))
    block = Block(matrix, torch.tensor([2]), torch.tensor([2.0]), torch.ones(3))
    module = ready(SAGE(hidden=1).convolution(1, 1, G))
    output, before = back_through(module, STATES[:3], block=block)
    assert output.tolist() == [[2 * 4 + 2 * 1.5]]
    assert before[:, 0].tolist() == [1.0, 1.0, 2.0]


@pytest.mark.parametrize("make", [linear, row_linear])
@pytest.mark.parametrize("small", [0, 100])
def test_a_layer_of_sparse_inputs_writes_over_what_is_there(make, small):
    layer = make(3, 2, G)
    for parameter in layer.parameters():
        parameter.grad = torch.full_like(parameter, math.nan)
    inputs = Sparse(np.array([0, 1]), np.array([2, 0]), np.array([3, 5], np.float32), (2, 3), small=small)
    gradient = torch.tensor([[1.0, 2.0], [10.0, 20.0]])
    with torch.no_grad():
        assert layer.back(inputs, gradient, True) is None
    weight = layer.weight.grad if make is row_linear else layer.weight.grad.t()
    assert weight.tolist() == [[50.0, 100.0], [0.0, 0.0], [3.0, 6.0]]
    assert layer.bias.grad.tolist() == [11.0, 22.0]


def test_cross_entropies_of_two_rows():
    logits, label = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]]), torch.tensor([0, 1])
    losses, back = cross_entropies(logits, label)
    np.testing.assert_allclose(losses, [math.log(4 / 3), math.log(2)], rtol=1e-6)
    np.testing.assert_allclose(back(torch.tensor([1.0, 4.0])), [[-0.25, 0.25], [2.0, -2.0]], rtol=1e-6)


def test_cross_entropies_with_labels_that_are_spread():
    # Shares are 3/4 and 1/4; of the label the first class has 0.2 and the second the rest.
    losses, back = cross_entropies(torch.tensor([[math.log(3.0), 0.0]]), torch.tensor([1]), torch.tensor([0.2, 0.1]))
    np.testing.assert_allclose(losses, [0.2 * math.log(4 / 3) + 0.8 * math.log(4)], rtol=1e-6)
    np.testing.assert_allclose(back(torch.tensor([2.0])), [[2 * (0.75 - 0.2), 2 * (0.25 - 0.8)]], rtol=1e-6)


@pytest.mark.parametrize("focal", [0.5, 1.0, 2.0])
def test_focal_losses_have_autograds_gradient(focal):
    logits = torch.tensor([[2.0, -1.0, 0.5], [0.0, 0.0, 0.0], [-3.0, 1.0, 30.0]], requires_grad=True)
    label, weights = torch.tensor([0, 2, 2]), torch.tensor([1.0, 3.0, 0.5])
    nll = torch.nn.functional.cross_entropy(logits, label, reduction="none")
    expected = nll * (1 - (-nll).exp()).clamp(min=1e-6) ** focal
    (expected * weights).sum().backward()
    losses, back = cross_entropies(logits.detach(), label, focal=focal)
    torch.testing.assert_close(losses, expected.detach())
    torch.testing.assert_close(back(weights), logits.grad, rtol=1e-4, atol=1e-5)


def test_a_relu_lets_through_what_it_let_through():
    assert relu_back(torch.tensor([0.0, 2.0]), torch.tensor([5.0, 7.0])).tolist() == [0.0, 7.0]


def test_a_parameter_without_a_gradient_is_told():
    with pytest.raises(AssertionError, match="must be there"):
        gradient_of(linear(1, 1, G).weight)


@pytest.mark.parametrize(("encoder", "has"), [(SAGE(), True), (GCN(), True), (GIN(), False)])
def test_who_has_them(encoder, has):
    assert isinstance(encoder.convolution(2, 2, G), WithBack) == has
