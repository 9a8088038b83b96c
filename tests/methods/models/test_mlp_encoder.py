"""MLP: a layer by hand, and that it has no use for edges."""

import pytest
import torch

from fedgraft.errors import InputError
from fedgraft.methods.models.mlp import MLP
from helpers.blocks import block_of, edges_of

PATH = block_of(edges_of([(0, 1), (1, 2)], 4))
"""Three nodes in a row, and one alone."""


def test_a_layer_by_hand():
    module = MLP(hidden=1).convolution(1, 1, torch.Generator())
    with torch.no_grad():
        module.own.weight.fill_(2.0)
        module.own.bias.fill_(1.0)
    states = torch.tensor([[1.0], [2.0], [4.0], [8.0]])
    assert module(states, PATH)[:, 0].tolist() == [3.0, 5.0, 9.0, 17.0]


def test_edges_play_no_part():
    module = MLP().convolution(3, 2, torch.Generator().manual_seed(0))
    states = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(module(states, PATH), module(states, block_of(edges_of([], 4))))


def test_widths_are_one_for_all_or_one_each():
    assert (MLP(hidden=8, layers=3).widths, MLP(hidden=(256, 128)).widths) == ((8, 8, 8), (256, 128))


@pytest.mark.parametrize("option", ["hidden", "layers"])
def test_impossible_options_are_refused(option):
    with pytest.raises(InputError, match=rf"MLP\.{option} must be >= 1; got 0"):
        MLP(**{option: 0})
