"""GIN: Eq. (4.1) by hand."""

import pytest
import torch

from fedgraft.errors import InputError
from fedgraft.methods.models.gin import GIN
from helpers.blocks import block_of, edges_of

PATH = block_of(edges_of([(0, 1), (1, 2)], 3))
"""Three nodes in a row."""


def test_a_layer_by_hand():
    module = GIN(hidden=1, epsilon=0.5).convolution(1, 1, torch.Generator())
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), (2.0, -10.0, 3.0, 1.0), strict=True):
            parameter.fill_(value)
    states = torch.tensor([[1.0], [2.0], [4.0]])
    # 1.5 h + sum of neighbours: 3.5, 8, 8; then 3 relu(2 x - 10) + 1
    assert module(states, PATH)[:, 0].tolist() == [1.0, 19.0, 19.0]


def test_sums_tell_multisets_apart_where_means_do_not():
    """Xu et al., Figure 3: a node with two equal neighbours and one with three."""
    module = GIN(hidden=4).convolution(1, 4, torch.Generator().manual_seed(0))
    star, larger = (block_of(edges_of([(0, k) for k in range(1, n)], n)) for n in (3, 4))
    assert not torch.allclose(module(torch.ones(3, 1), star)[0], module(torch.ones(4, 1), larger)[0])


@pytest.mark.parametrize("option", ["hidden", "layers"])
def test_impossible_options_are_refused(option):
    with pytest.raises(InputError, match=rf"GIN\.{option} must be >= 1; got 0"):
        GIN(**{option: 0})
