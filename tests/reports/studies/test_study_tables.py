"""How many comparisons a table makes, which hold, and who is first: by hand."""

import math

import pytest
from scipy.stats import t

from fedgraft.reports.studies.tables import differences, standings

OURS, PLAIN, MLP = ("sage", "ours"), ("sage", "plain"), ("mlp", "plain")


def by_seed(*scores):
    return dict(enumerate(scores, 1))


def test_all_methods_in_all_columns_but_the_reference_are_corrected_together():
    """Differences of 1..5 have t = 3 / (1.5811 / 2.2361) = 4.2426: p = 0.01324; those of -1, 0, 1 have p = 1."""
    columns = {
        "one": {PLAIN: by_seed(0, 0, 0, 0, 0), OURS: by_seed(1, 2, 3, 4, 5)},
        "two": {PLAIN: by_seed(1, 1, 1), OURS: by_seed(0, 1, 2), MLP: by_seed(5, 5, 5)},
    }
    found = differences(columns, "plain")
    assert len(found.p_values) == 2, "a reference with another model is none that anything is held against"
    assert found.p_values["one", OURS] == pytest.approx(2 * 0.013236, abs=1e-5)
    assert found.p_values["two", OURS] == 1.0
    assert found.text(("one", OURS), 2) == "+3.00 ± 1.96*"
    assert found.text(("two", OURS), 2) == "+0.00 ± 2.48"
    assert found.text(("one", PLAIN), 2) == "+0.00 ± 0.00"
    assert "over all 2 comparisons with Plain" in found.note("Plain")


def test_one_seed_and_no_reference_are_no_comparison():
    assert differences({"one": {PLAIN: by_seed(1), OURS: by_seed(2)}}, "plain").p_values == {}
    assert differences({"one": {OURS: by_seed(1, 2)}}, "plain").p_values == {}


def test_the_best_is_first_where_its_corrected_interval_excludes_0():
    """Two others: the quantile of t with four degrees at 1 - 0.025 / 2 is 3.4954; half a width is that times 0.7071."""
    quantile = t.ppf(1 - 0.05 / 2 / 2, 4)
    assert quantile * math.sqrt(2.5 / 5) == pytest.approx(2.4716, abs=1e-4)
    column = {OURS: by_seed(1, 2, 3, 4, 5), PLAIN: by_seed(0, 0, 0, 0, 0), MLP: by_seed(-9, -9, -9, -9, -9)}
    assert standings(column, lower=False) == {OURS: " (first)"}
    near = {**column, PLAIN: by_seed(0.6, 0.6, 0.6, 0.6, 0.6)}  # 2.4: an interval of 95 % alone, +- 1.96, excludes 0
    assert standings(near, lower=False) == {OURS: " (highest)", PLAIN: " (with the highest)"}


def test_less_than_five_seeds_are_never_first():
    column = {OURS: by_seed(2, 2.1, 2.2, 2.1), PLAIN: by_seed(1, 1, 1, 1)}
    assert standings(column, lower=False) == {OURS: " (highest)"}
    assert standings(column, lower=True) == {PLAIN: " (lowest)"}
    five = {run: {**scores, 5: scores[1]} for run, scores in column.items()}
    assert standings(five, lower=True) == {PLAIN: " (first)"}


def test_no_variance_one_seed_and_one_method_are_told():
    same = {OURS: by_seed(1, 1, 1, 1, 1), PLAIN: by_seed(1, 1, 1, 1, 1)}
    assert standings(same, lower=False) == {OURS: " (highest)", PLAIN: " (with the highest)"}
    apart = {**same, PLAIN: by_seed(0, 0, 0, 0, 0)}
    assert standings(apart, lower=False) == {OURS: " (first)"}
    assert standings({OURS: by_seed(2), PLAIN: by_seed(1)}, lower=False) == {
        OURS: " (highest)",
        PLAIN: " (with the highest)",
    }
    assert standings({OURS: by_seed(1, 2, 3)}, lower=False) == {}
    assert standings({}, lower=False) == {}
