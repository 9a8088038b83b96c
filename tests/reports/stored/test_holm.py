"""Paired t-tests and Holm's correction: worked examples, and scipy."""

import math

import numpy as np
import pytest
from scipy.stats import ttest_rel

from fedgraft.reports.stored.comparison import holm, p_value


def test_a_worked_example():
    """Mean 3, deviation sqrt(2.5), t = 3 / sqrt(2.5 / 5) = 4.2426 with four degrees of freedom."""
    assert p_value([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(0.013236, abs=1e-6)


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_it_is_scipy_s(seeds):
    g = np.random.default_rng(seeds)
    one, other = g.normal(0.8, 0.01, (2, seeds))
    assert p_value((one - other).tolist()) == pytest.approx(ttest_rel(one, other).pvalue, rel=1e-9)


def test_without_variance_and_without_seeds():
    assert p_value([0.0, 0.0, 0.0]) == 1.0
    assert p_value([0.5, 0.5]) == 0.0
    assert math.isnan(p_value([1.0]))
    assert math.isnan(p_value([]))


def test_holm_by_hand():
    """Sorted 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1; none below the one before it."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_what_is_no_comparison_is_not_counted():
    found = holm([0.02, math.nan, 0.5])
    assert found[::2] == pytest.approx([0.04, 0.5])
    assert math.isnan(found[1])
