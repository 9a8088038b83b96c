import math

import pytest
import torch

from fedgraft.methods.losses.margin import Margin
from fedgraft.methods.losses.sampled_softmax import SampledSoftmax

TAKEN = torch.tensor([1.0, 0.0])
OTHERS = torch.tensor([[0.5, 1.5], [-3.0, 9.0]])
HAD = torch.tensor([[False, False], [False, True]])


def test_a_margin_by_hand():
    # 0.5 lacks 0.5 of being one below 1, 1.5 lacks 1.5; -3 is low enough, and the item that the user has is no item.
    assert Margin(1.0).losses(TAKEN, OTHERS, HAD, 9).tolist() == [1.0, 0.0]
    assert Margin(4.0).losses(TAKEN, OTHERS, HAD, 9).tolist() == [4.0, 1.0]
    assert Margin(1.0).losses(TAKEN, OTHERS, ~HAD | True, 9).tolist() == [0.0, 0.0]


def test_a_softmax_by_hand():
    # 2 of 6 items are drawn: each counts three times.
    expected = [
        math.log(math.e + 3 * math.exp(0.5) + 3 * math.exp(1.5)) - 1,
        math.log(1 + 3 * math.exp(-3)),
    ]
    assert SampledSoftmax().losses(TAKEN, OTHERS, HAD, 6).tolist() == pytest.approx(expected, abs=1e-6)
    assert SampledSoftmax().losses(TAKEN, OTHERS, ~HAD | True, 6).tolist() == [0.0, 0.0]
