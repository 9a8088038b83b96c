import numpy as np
import pytest
import torch

from fedgraft.methods.rl.networks import drawn, forward, moved, one_thread, seeded, tensors
from helpers.toy_runs import same


def rng(seed=0):
    return np.random.default_rng(seed)


def test_equal_seeds_draw_equal_networks():
    one, other = (drawn([(3, 4), (4, 2)], seeded(rng(1))) for _ in range(2))
    assert same(one, other)
    assert {name: array.shape for name, array in one.items()} == {
        "0.weight": (4, 3),
        "0.bias": (4,),
        "1.weight": (2, 4),
        "1.bias": (2,),
    }


def test_a_perceptron_by_hand():
    network = {"0.weight": [[1.0], [-1.0]], "0.bias": [0.0, 1.0], "1.weight": [[2.0, 3.0]], "1.bias": [0.5]}
    parameters = {name: torch.tensor(values) for name, values in network.items()}
    # relu(4) = 4 and relu(-3) = 0; relu(-4) = 0 and relu(5) = 5.
    assert forward(parameters, torch.tensor([[4.0], [-4.0]])).tolist() == [[8.5], [15.5]]


def test_a_network_of_one_layer_is_linear():
    parameters = tensors({"0.weight": np.full((1, 2), -1, np.float32), "0.bias": np.zeros(1, np.float32)})
    assert forward(parameters, torch.tensor([[1.0, 2.0]])).tolist() == [[-3.0]]


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_steps_are_those_of_torchs_adam(decay):
    network, inputs = drawn([(3, 5), (5, 1)], seeded(rng())), torch.from_numpy(rng(1).random((7, 3)).astype(np.float32))
    theirs = tensors(network, learns=True)
    adam = torch.optim.Adam(list(theirs.values()), lr=0.01, weight_decay=decay)
    moments = {}
    with one_thread():
        for _ in range(5):
            ours = tensors(network, learns=True)
            network, moments = moved(ours, forward(ours, inputs).square().mean(), moments, 0.01, decay)
            adam.zero_grad()
            forward(theirs, inputs).square().mean().backward()
            adam.step()
    for name, parameter in theirs.items():
        np.testing.assert_allclose(network[name], parameter.detach().numpy(), rtol=1e-6, atol=1e-8)
