import math

import pytest
import torch

from fedgraft.domains.ranking.ranker_losses import dependence


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
