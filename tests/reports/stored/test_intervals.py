"""Intervals of means: by hand."""

import math

import pytest

from fedgraft.reports.stored.comparison import interval


def test_an_interval_is_student_s():
    """Of 1, 2 and 3: mean 2, standard error 1 / sqrt(3), and t = 4.303 with two degrees of freedom."""
    found = interval([1.0, 2.0, 3.0])
    assert found.middle == 2
    assert found.half == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    assert (found.above, found.below) == (False, False)
    assert interval([1.0, 1.1, 0.9]).above
    assert interval([-1.0, -1.1, -0.9]).below
    assert str(interval([1.0, 1.0])) == "+1.00 ± 0.00"


def test_one_difference_has_no_interval_and_none_has_no_mean():
    assert str(interval([0.5])) == "+0.50"
    assert not interval([0.5]).above
    assert str(interval([])) == ""
