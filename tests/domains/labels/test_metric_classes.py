"""Classes judged by other measures than accuracy: by hand, against exact values, and added up."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy.stats import rankdata

from fedgraft.contracts.scores import add
from fedgraft.domains.labels import curves
from fedgraft.domains.labels.metric_choice import RARE, check_classes, check_numbers, counted, rare_said
from fedgraft.domains.labels.metric_classes import METRICS, MetricClasses
from fedgraft.errors import InputError

TWO = MetricClasses(("ok", "fraud"), judged="average_precision", positive_class="fraud")


def shares_of(odds):
    """Float32 [n, 2], from the log odds of the second class."""
    odds = np.asarray(odds, np.float64)
    small = np.exp(-np.abs(odds))
    pair = np.stack([1 / (1 + small), small / (1 + small)], axis=1)
    return np.where(odds[:, None] > 0, pair[:, ::-1], pair).astype(np.float32)


def exact(label, score):
    """(average precision with equal scores at one threshold, AUC) of scores of a class."""
    order = np.argsort(-score, kind="stable")
    hits, last = np.cumsum(label[order]), np.append(np.diff(score[order]) != 0, True)
    hits, claimed = hits[last], np.arange(1, len(label) + 1)[last]
    precision = float((np.diff(hits, prepend=0) * hits / claimed).sum() / label.sum())
    yes = int(label.sum())
    return precision, (rankdata(score)[label == 1].sum() - yes * (yes + 1) / 2) / (yes * (len(label) - yes))


@pytest.mark.parametrize("rate", [0.015, 0.2])
@pytest.mark.parametrize("spread", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("start", [0.0, -4.0])
def test_areas_are_exact_to_two_thousandths(rate, spread, start):
    g = np.random.default_rng(3)
    label = (g.random(6000) < rate).astype(np.int64)
    odds = start + spread * (2 * label + g.normal(size=6000))
    measured = TWO.measures(TWO.sums_by(shares_of(odds), label))
    precision, area = exact(label, odds)
    assert abs(measured["average_precision"] - precision) < 2e-3
    assert abs(measured["auc"] - area) < 1e-3


def test_four_examples_by_hand():
    label = np.array([1, 0, 1, 0])
    measured = TWO.measures(TWO.sums_by(shares_of([3.0, 1.0, -1.0, -3.0]), label))
    assert measured["accuracy"] == 0.5
    assert measured["average_precision"] == pytest.approx((1 + 2 / 3) / 2)
    assert measured["auc"] == 0.75
    assert measured["balanced_accuracy"] == 0.5
    assert measured["f1"] == pytest.approx(0.8)  # the first three are taken for it
    assert TWO.threshold(TWO.sums_by(shares_of([3.0, 1.0, -1.0, -3.0]), label)) == pytest.approx(
        1 / (1 + math.exp(2)), abs=0.05
    )


def test_what_is_said_of_all_alike_has_the_share_of_the_class():
    label = (np.arange(1000) < 15).astype(np.int64)
    assert TWO.agreement(np.zeros(1000, np.int64), label) == pytest.approx(0.015)
    sums = TWO.sums_by(np.full((1000, 2), 0.5, np.float32), label)
    assert TWO.measures(sums)["auc"] == 0.5
    assert TWO.measures(sums)["precision_at_10"] == pytest.approx(0.015)


def test_sums_of_parts_tell_what_those_of_all_do():
    g = np.random.default_rng(0)
    label, odds = g.integers(0, 2, 200), g.normal(size=200)
    parts = [TWO.sums_by(shares_of(odds[rows]), label[rows]) for rows in np.array_split(np.arange(200), 3)]
    whole, added = TWO.measures(TWO.sums_by(shares_of(odds), label)), TWO.measures(add(parts))
    assert whole == pytest.approx(added)
    assert set(METRICS) <= whole.keys()


def test_the_rarer_class_may_be_either_one():
    label, odds = np.array([0, 1, 1, 1]), np.array([-2.0, -1.0, 1.0, 2.0])
    first = MetricClasses(("fraud", "ok"), judged="average_precision", positive_class="fraud")
    assert first.score(first.sums_by(shares_of(odds), label)) == 1.0
    unsaid = MetricClasses(("fraud", "ok"), judged="average_precision")
    assert unsaid.rarer(unsaid.sums_by(shares_of(odds), label)) == 0


def test_a_threshold_is_chosen_on_validation():
    labels = MetricClasses(("ok", "fraud"), judged="f1", positive_class="fraud")
    validation = labels.sums_by(shares_of([-3.0, -1.0, 1.0]), np.array([0, 1, 1]))
    test = labels.sums_by(shares_of([-3.0, -1.0, 1.0]), np.array([0, 0, 1]))
    scores = labels.scores({"validation": validation, "test": test})
    assert scores == {"validation": 1.0, "test": pytest.approx(2 / 3)}
    decision_threshold = labels.decision_threshold({"validation": validation, "test": test})
    assert (decision_threshold["class"], decision_threshold["share"]) == ("fraud", pytest.approx(2 / 3))
    assert 0.05 < decision_threshold["threshold"] < 0.27
    assert decision_threshold["curve"][0][:2] == (1.0, 1.0)


def test_precision_and_recall_of_the_likeliest_percent():
    label = (np.arange(200) < 20).astype(np.int64)
    odds = np.linspace(5, -5, 200)
    measured = TWO.measures(TWO.sums_by(shares_of(odds), label))
    assert measured["precision_at_5"] == pytest.approx(1.0)
    assert measured["recall_at_5"] == pytest.approx(0.5)
    assert measured["recall_at_10"] == pytest.approx(1.0)


def test_of_more_classes_the_mean_over_those_there_are():
    labels = MetricClasses(("a", "b", "c"), judged="auc")
    shares = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.7, 0.1], [0.6, 0.3, 0.1]], np.float32)
    measured = labels.measures(labels.sums_by(shares, np.array([0, 1, 1, 1])))
    assert measured["auc"] == pytest.approx((1.0 + 1.0) / 2)  # of the third there is no example
    assert "f1" not in measured


@pytest.mark.parametrize("spread", [1.0, 3.0, 8.0])
@pytest.mark.parametrize("classes", [30, 100])
def test_of_many_classes_areas_stay_means_over_classes_to_a_hundredth(classes, spread):
    g = np.random.default_rng(5)
    label = g.integers(0, classes, 40 * classes)
    logits = spread * (g.normal(size=(len(label), classes)) + 2 * np.eye(classes)[label])
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares = (shares / shares.sum(1, keepdims=True)).astype(np.float32)
    labels = MetricClasses(tuple(map(str, range(classes))))
    measured = labels.measures(labels.sums_by(shares, label))
    each = [exact((label == k).astype(np.int64), shares[:, k]) for k in range(classes)]
    precision, area = np.mean(each, axis=0)
    assert abs(measured["auc"] - area) < 0.01
    assert abs(measured["average_precision"] - precision) < 0.05
    assert len(labels.sums) < 9000
    labels = MetricClasses(labels.names, judged="average_precision")
    assert abs(labels.score(labels.sums_by(shares, label)) - precision) < 0.01


def test_without_examples_nothing_is_known():
    nothing = TWO.sums_by(np.zeros((0, 2), np.float32), np.zeros(0, np.int64))
    assert all(map(math.isnan, TWO.measures(nothing).values()))
    assert TWO.decision_threshold({"validation": nothing, "test": nothing}) == {}


def test_edges_are_probabilities_in_order():
    edges = [curves.probability(edge, 64) for edge in range(65)]
    assert edges == sorted(edges)
    assert (edges[0], edges[32], edges[64]) == (0.0, 0.5, 1.0)


@dataclass
class Shard:
    """Labels of one client, all of them for training."""

    label: np.ndarray
    classes: tuple[str, ...] = ("ok", "fraud")
    name: str = field(default="one")

    def rows(self, split):
        return np.arange(len(self.label))


def test_classes_of_all_clients_are_counted_by_name():
    names, counts = counted([Shard(np.array([0, 0, 1])), Shard(np.array([1]))])
    assert (names, counts.tolist()) == (("ok", "fraud"), [2, 2])
    names, counts = counted([Shard(np.array([0]), ("a", "b")), Shard(np.array([0, 1]), ("b", "c"))])
    assert (names, counts.tolist()) == (None, [1, 1, 1])


def test_one_class_and_equal_numbers_are_refused():
    with pytest.raises(InputError, match=r"All 3 training examples are of one class 'ok': there is nothing to tell"):
        check_classes(("ok", "fraud"), np.array([3, 0]))
    with pytest.raises(InputError, match=r"All 3 training examples have the same number, 2\.5: the target is constant"):
        check_numbers([np.array([2.5, 2.5]), np.array([2.5, np.nan])])
    check_numbers([np.array([2.5]), np.array([1.0])])


def test_of_several_labels_those_with_a_rare_class_are_counted():
    label = np.stack([np.arange(40) < 2, np.arange(40) % 2, np.zeros(40)], 1).astype(np.int64)
    label[0, 1] = -1
    names, counts = counted([Shard(label[:30]), Shard(label[30:])])
    assert counts.tolist() == [[38, 2], [19, 20], [40, 0]]
    check_classes(names, counts)
    assert rare_said(names, counts, counts).startswith(
        f"Of 1 of 3 labels the rarer class is less than {RARE:.0%} of the training"
    )
    assert rare_said(names, counts[1:], counts[1:]) == ""
    with pytest.raises(InputError, match="Of each of the 1 labels all training examples are of one class"):
        check_classes(names, counts[2:])
