import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.contracts.scores import add, first_reaching, improves, root_mean_square


def test_sums_of_parts_are_the_sums_of_their_union():
    assert add([{"error": 1.0, "count": 2.0}, {"error": 3.0, "count": 5.0}]) == {"error": 4.0, "count": 7.0}
    assert add([]) == {}


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.integers(0, 20))
def test_merging_in_two_steps_is_merging_at_once(values, cut):
    parts = [{"error": value} for value in values]
    halves = [add(half) for half in (parts[:cut], parts[cut:]) if half]
    assert add(halves)["error"] == pytest.approx(add(parts)["error"], abs=1e-6)


def test_root_mean_square_of_a_worked_example():
    assert root_mean_square(3.0**2 + 4.0**2, 2) == pytest.approx(math.sqrt(12.5))
    assert math.isnan(root_mean_square(0.0, 0))


@pytest.mark.parametrize(
    ("score", "best", "lower", "higher"),
    [
        (1.0, None, True, True),
        (1.0, math.nan, True, True),
        (1.0, 2.0, True, False),
        (2.0, 1.0, False, True),
        (1.0, 1.0, False, False),
        (math.nan, 1.0, False, False),
        (math.nan, None, False, False),
    ],
)
def test_only_a_strictly_better_score_improves(score, best, lower, higher):
    assert improves(score, best, "lower") == lower
    assert improves(score, best, "higher") == higher


def test_first_reaching_is_the_first_as_good_as_the_target():
    curve = [{"round": round, "validation": value} for round, value in enumerate([None, 3.0, 2.0, 1.0])]
    assert first_reaching(curve, 2.0, "lower") == curve[2]
    assert first_reaching(curve, 2.5, "higher") == curve[1]
    assert first_reaching(curve, 0.5, "lower") is None
