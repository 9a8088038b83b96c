import math

import pytest
import torch

from fedgraft.domains.ranking.ranker_losses import dependence, margin, sampled_softmax

TAKEN = torch.tensor([1.0, 0.0])
OTHERS = torch.tensor([[0.5, 1.5], [-3.0, 9.0]])
HAD = torch.tensor([[False, False], [False, True]])


def test_a_margin_by_hand():
    # 0.5 lacks 0.5 of being one below 1, 1.5 lacks 1.5; -3 is low enough, and the item that the user has is no item.
    assert margin(TAKEN, OTHERS, HAD, 1.0).tolist() == [1.0, 0.0]
    assert margin(TAKEN, OTHERS, HAD, 4.0).tolist() == [4.0, 1.0]
    assert margin(TAKEN, OTHERS, ~HAD | True, 1.0).tolist() == [0.0, 0.0]


def test_a_softmax_by_hand():
    # 2 of 6 items are drawn: each counts three times.
    expected = [
        math.log(math.e + 3 * math.exp(0.5) + 3 * math.exp(1.5)) - 1,
        math.log(1 + 3 * math.exp(-3)),
    ]
    assert sampled_softmax(TAKEN, OTHERS, HAD, 6).tolist() == pytest.approx(expected, abs=1e-6)
    assert sampled_softmax(TAKEN, OTHERS, ~HAD | True, 6).tolist() == [0.0, 0.0]


def test_distance_correlation_is_one_for_the_same_block_and_small_for_another():
    g = torch.Generator().manual_seed(0)
    block, other = torch.randn(2, 1, 100, 3, generator=g)
    same = dependence(torch.stack([block, 2 * block]))
    assert float(same) == pytest.approx(1.0, abs=1e-3)
    assert 0 < float(dependence(torch.stack([block, other]))) < 0.6


def test_distance_correlation_by_hand():
    # Of points 0, 1, 2 and 0, 1, 0: distances |a - b|, centred by rows and columns.
    one, two = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.0, 1.0, 0.0])

    def centred(points):
        distances = (points[:, None] - points).abs()
        return distances - distances.mean(0) - distances.mean(1, keepdim=True) + distances.mean()

    a, b = centred(one), centred(two)
    expected = math.sqrt(float((a * b).mean()) / math.sqrt(float((a * a).mean() * (b * b).mean())))
    found = dependence(torch.stack([one, two])[:, None, :, None])
    assert float(found) == pytest.approx(expected, abs=1e-3)


def test_distance_correlation_has_a_finite_gradient_where_points_are_equal():
    channels = torch.zeros(2, 2, 5, 3, requires_grad=True)
    dependence(channels).backward()
    assert torch.isfinite(channels.grad).all()
