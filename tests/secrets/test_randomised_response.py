"""Answers by chance: their ratio is bounded, their counts are right on average."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fedgraft.errors import InputError
from fedgraft.secrets.keystream import Keystream
from fedgraft.secrets.randomised_response import answers, debiased_rows, truth_probability

KEY = bytes(range(32))


def test_by_hand():
    """K = 3 and exp(epsilon) = 2: the truth in half of all answers."""
    assert truth_probability(3, math.log(2)) == pytest.approx(0.5, abs=1e-11)
    told = np.repeat(np.arange(3), [50, 25, 25])
    assert debiased_rows(told, 3, math.log(2)).sum(axis=0) == pytest.approx([100, 0, 0], abs=1e-6)


@given(st.integers(2, 1_000), st.floats(1e-6, 60))
def test_no_answer_is_more_than_exp_epsilon_times_as_likely(classes, epsilon):
    p = truth_probability(classes, epsilon)
    assert p <= 1 / (1 + (classes - 1) * math.exp(-epsilon))
    assert p >= 1 / classes
    assert math.log(p) - math.log((1 - p) / (classes - 1)) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize(("classes", "epsilon"), [(2, 1.0), (3, 0.1), (7, 4.0)])
def test_answers_have_the_law(classes, epsilon):
    told = answers(np.full(50_000, classes - 1), classes, epsilon, Keystream(KEY))
    p = truth_probability(classes, epsilon)
    law = np.full(classes, (1 - p) / (classes - 1))
    law[-1] = p
    assert chisquare(np.bincount(told, minlength=classes), 50_000 * law).pvalue > 1e-3


def test_sums_of_rows_are_counts_on_average_and_vary_as_answers_do():
    """Of n_k in class k: (n_k p (1 - p) + (n - n_k) q (1 - q)) / (p - q)**2, as answers are independent."""
    true, source = np.array([300, 50, 0, 150]), Keystream(KEY)
    labels = np.repeat(np.arange(4), true)
    seen = np.array([debiased_rows(answers(labels, 4, 1.5, source), 4, 1.5).sum(axis=0) for _ in range(1_500)])
    p = truth_probability(4, 1.5)
    q = (1 - p) / 3
    variance = (true * p * (1 - p) + (500 - true) * q * (1 - q)) / (p - q) ** 2
    assert np.abs(seen.mean(axis=0) - true).max() < 4 * math.sqrt(variance.max() / 1_500)
    assert seen.var(axis=0) == pytest.approx(variance, rel=0.2)


def test_each_row_sums_to_one():
    told = answers(np.arange(30) % 5, 5, 2.0, Keystream(KEY))
    assert debiased_rows(told, 5, 2.0).sum(axis=1) == pytest.approx(np.ones(30))


def test_of_no_units_nothing_is_told():
    assert answers(np.zeros(0, np.int64), 3, 1.0, Keystream(KEY)).shape == (0,)


def test_errors_say_what_is_allowed():
    with pytest.raises(InputError, match=r"A label must be in \[0, 2\]; got 3\."):
        answers(np.array([0, 3]), 3, 1.0, Keystream(KEY))
    with pytest.raises(InputError, match=r"The number of classes must be >= 2; got 1\."):
        truth_probability(1, 1.0)
    with pytest.raises(InputError, match=r"epsilon must be > 0 and finite; got 0\."):
        truth_probability(2, 0)
    with pytest.raises(InputError, match=r"epsilon must be large enough that answers tell anything, above"):
        debiased_rows(np.array([0, 1]), 2, 1e-13)
