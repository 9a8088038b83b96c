"""Robust rules by hand, and what liars can do to them."""

import numpy as np
import pytest

from fedgraft.contracts import Update
from fedgraft.errors import InputError
from fedgraft.methods.aggregation.geometric_median import GeometricMedian
from fedgraft.methods.aggregation.krum import Krum
from fedgraft.methods.aggregation.mean import Mean
from fedgraft.methods.aggregation.median import Median
from fedgraft.methods.aggregation.trimmed_mean import TrimmedMean

ROBUST = [Median(), TrimmedMean(0.3), Krum(0.3), GeometricMedian()]


def of(*rows, staleness=()):
    """Updates of clients 0, 1 ... with these numbers, weighing by turns 1 and 3."""
    weights = np.array([1.0 + 2 * (k % 2) for k in range(len(rows))])
    ages = staleness or (0,) * len(rows)
    return [
        Update(k, weight, {"w": np.array(row, np.float32)}, age)
        for k, (row, weight, age) in enumerate(zip(rows, (weights / weights.sum()).tolist(), ages, strict=True))
    ]


def mean(updates):
    return sum(update.weight * update.arrays["w"].astype(np.float64) for update in updates).tolist()


def test_the_mean_changes_nothing():
    given = of([1, 2], [3, 4])
    assert Mean().apply(given) is given


def test_the_median_of_three_and_of_four_by_hand():
    assert mean(Median().apply(of([1, 50], [2, 40], [900, 45]))) == [2, 45]
    assert mean(Median().apply(of([1, 0], [2, 0], [4, 1], [900, 1]))) == [3, 0.5]


def test_the_trimmed_mean_leaves_one_of_five_out_at_each_end():
    assert mean(TrimmedMean(0.2).apply(of([1, 9], [2, 8], [3, 7], [4, 6], [-900, 900]))) == pytest.approx([2, 8])


def test_a_share_that_rounds_to_nobody_is_one():
    four = of([1, 9], [2, 8], [4, 6], [-900, 900])
    assert mean(TrimmedMean(0.2).apply(four)) == [1.5, 8.5], "floor(0.8) = 0"
    assert [update.client for update in Krum(0.2).apply(four)] == [0, 1, 2]
    for rule in (TrimmedMean(0.0), Krum(0.0)):
        assert mean(rule.apply(four)) == pytest.approx(np.mean([update.arrays["w"] for update in four], axis=0)), "none"
    for rule in (TrimmedMean(0.2), Krum(0.2)):
        assert mean(rule.apply(of([0], [900]))) == [450], "of two nothing tells which lies"


@pytest.mark.parametrize(
    ("rule", "liars"),
    [
        (Mean(), [0, 0, 0, 0, 0, 0, 0]),
        (Median(), [0, 0, 1, 1, 2, 4, 9]),
        (GeometricMedian(), [0, 0, 1, 1, 2, 4, 9]),
        (TrimmedMean(0.2), [0, 0, 1, 1, 1, 2, 4]),
        (Krum(0.2), [0, 0, 1, 1, 1, 2, 4]),
        (Krum(0.45), [0, 0, 1, 1, 1, 4, 9]),  # of five two are expected, and a score is of one neighbour
        (Krum(0.0), [0, 0, 0, 0, 0, 0, 0]),
    ],
    ids=str,
)
def test_how_many_liars_of_how_many_are_survived(rule, liars):
    assert [rule.survives(clients) for clients in (1, 2, 3, 4, 5, 10, 20)] == liars


def test_krum_s_scores_by_hand():
    # With f = 1 of five, a score sums the squared distances to the two nearest.
    # 0: 1 + 4 = 5; 1: 1 + 1 = 2; 2: 1 + 4 = 5 (to 1 and 0); 5: 9 + 16 = 25; 100: 9025 + 9604.
    given = of([0], [1], [2], [5], [100])
    assert [update.client for update in Krum(0.2, multi=False).apply(given)] == [1]
    kept = Krum(0.2).apply(given)
    assert [update.client for update in kept] == [0, 1, 2, 3]
    assert [update.weight for update in kept] == [0.25] * 4
    assert mean(kept) == [2]


def test_two_updates_say_nothing_about_who_lies():
    assert [update.weight for update in Krum(0.4).apply(of([0], [100]))] == [0.5, 0.5]


def test_the_geometric_median_of_a_triangle_is_its_fermat_point():
    # Of an isosceles right triangle: on the axis of symmetry, at (3 - sqrt(3)) / 6 from the right angle.
    found = mean(GeometricMedian(steps=500).apply(of([0, 0], [1, 0], [0, 1])))
    assert found == pytest.approx([(3 - 3**0.5) / 6] * 2, abs=1e-4)


def test_the_geometric_median_on_a_line_is_the_median():
    assert mean(GeometricMedian(steps=500).apply(of([0], [1], [2], [3], [1000]))) == pytest.approx([2], abs=1e-3)


@pytest.mark.parametrize("rule", ROBUST, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("factor", [-1.0, -10.0, 100.0, 1e4])
def test_three_liars_of_ten_stay_without_effect(rule, factor):
    g = np.random.default_rng(3)
    honest = 1 + 0.1 * g.standard_normal((10, 50))
    sent = honest.copy()
    sent[:3] *= factor
    found, plain = mean(rule.apply(of(*sent))), mean(of(*sent))
    assert np.abs(np.array(found) - 1).max() < 0.25, "within what the honest ones differ by"
    assert np.abs(np.array(plain) - 1).max() > 0.4


@pytest.mark.parametrize(
    "rule", [Krum(0.0), Median(), TrimmedMean(0.0), GeometricMedian()], ids=lambda r: type(r).__name__
)
def test_examples_that_are_claimed_buy_no_vote(rule):
    given = of([1.0], [1.0], [5.0])
    claimed = [Update(0, 1e-9, given[0].arrays), Update(1, 1e-9, given[1].arrays), Update(2, 1 - 2e-9, given[2].arrays)]
    assert mean(rule.apply(claimed)) == mean(rule.apply(given))


def test_late_updates_have_a_smaller_vote():
    kept = Krum(0.0).apply(of([1], [2], [3], staleness=(0, 1, 0)))
    assert [update.weight for update in kept] == pytest.approx([0.4, 0.2, 0.4])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrimmedMean(0.5), r"TrimmedMean.share must be in \[0, 0.5\); got 0.5"),
        (lambda: Krum(-0.1), r"Krum.share must be in \[0, 0.5\); got -0.1"),
        (lambda: GeometricMedian(steps=0), r"GeometricMedian.steps must be >= 1; got 0"),
        (lambda: GeometricMedian(smoothing=0), r"GeometricMedian.smoothing must be in \(0, 1\]; got 0"),
    ],
)
def test_options_out_of_range(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_many_numbers_are_looked_at_piece_by_piece(monkeypatch):
    monkeypatch.setattr("fedgraft.methods.votes.AT_ONCE", 7)
    g = np.random.default_rng(1)
    rows = g.standard_normal((5, 23)).astype(np.float32)
    assert mean(Median().apply(of(*rows))) == pytest.approx(np.median(rows, axis=0).tolist())
    assert [update.client for update in Krum(0.2).apply(of(*rows))] == _by_scores(rows)


def _by_scores(rows):
    apart = np.square(rows[:, None].astype(float) - rows[None]).sum(axis=2)
    scores = np.sort(apart, axis=1)[:, 1:3].sum(axis=1)
    return sorted(np.argsort(scores)[:4].tolist())
