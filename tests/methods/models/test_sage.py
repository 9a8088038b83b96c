"""SAGE: a layer by hand."""

import pytest
import torch

from fedgraft.errors import InputError
from fedgraft.methods.models.sage import SAGE
from helpers.blocks import block_of, edges_of

PATH = block_of(edges_of([(0, 1), (1, 2)], 4))
"""Three nodes in a row, and one alone."""


def test_a_layer_by_hand():
    module = SAGE(hidden=1).convolution(1, 1, torch.Generator())
    with torch.no_grad():
        module.own.weight.fill_(2.0)
        module.own.bias.fill_(1.0)
        module.mean.weight.fill_(10.0)
    states = torch.tensor([[1.0], [2.0], [4.0], [8.0]])
    # means of neighbours: 2, 2.5, 2, none
    assert module(states, PATH)[:, 0].tolist() == [23.0, 30.0, 29.0, 17.0]


@pytest.mark.parametrize("option", ["hidden", "layers"])
def test_impossible_options_are_refused(option):
    with pytest.raises(InputError, match=rf"SAGE\.{option} must be >= 1; got 0"):
        SAGE(**{option: 0})
