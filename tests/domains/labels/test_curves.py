"""Sums of a classification and what they tell, by hand and against scikit-learn."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from fedgraft.contracts.scores import add
from fedgraft.domains.labels.curves import BINS, class_measures, class_sums, sum_names

LIKELY = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.5, 0.4, 0.1], [0.2, 0.7, 0.1]], np.float32)
LABEL = np.array([0, 2, 1, 1])


def predictions(seed, nodes, classes, scale, signal):
    """Probabilities of a model that knows something; `scale` is how sure it is."""
    g = np.random.default_rng(seed)
    label = g.integers(0, classes, nodes)
    logits = g.standard_normal((nodes, classes))
    logits[np.arange(nodes), label] += signal
    raised = np.exp(scale * (logits - logits.max(1, keepdims=True)))
    return (raised / raised.sum(1, keepdims=True)).astype(np.float32), label


def pooled_auc(likely, label):
    """Micro, one class against the rest."""
    own = np.eye(likely.shape[1], dtype=bool)[label]
    return roc_auc_score(own.ravel(), likely.ravel())


def test_sums_by_hand():
    sums = class_sums(LIKELY, LABEL)
    assert tuple(sums) == sum_names(3)
    assert (sums["correct"], sums["count"]) == (3, 4)
    assert sums["loss"] == pytest.approx(-math.log(0.7) - math.log(0.6) - math.log(0.4) - math.log(0.7))
    found = {what: [sums[f"{what}_{k}"] for k in range(3)] for what in ("true", "claimed", "hit")}
    assert found == {"true": [1, 2, 1], "claimed": [2, 1, 1], "hit": [1, 1, 1]}
    for what, count in (("own", 4), ("other", 8)):
        assert sum(sums[f"{what}_{k}"] for k in range(BINS)) == count
    assert all(type(value) is float for value in sums.values())


def test_measures_by_hand():
    found = class_measures(class_sums(LIKELY, LABEL))
    assert found["accuracy"] == 0.75
    assert found["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    # Own: 0.7, 0.6, 0.4, 0.7. Of the 32 pairs with others only (0.4, 0.5) is the wrong way round.
    assert found["auc"] == pytest.approx(31 / 32)


def test_nothing_to_score():
    for sums in (class_sums(LIKELY[:0], LABEL[:0]), {}):
        assert all(math.isnan(value) for value in class_measures(sums).values())
    assert class_sums(LIKELY[:0], LABEL[:0]) == dict.fromkeys(sum_names(3), 0.0)


def test_what_is_sure_and_wrong_costs_much_but_not_infinitely_much():
    sums = class_sums(np.array([[1.0, 0.0], [0.0, 1.0]], np.float32), np.array([1, 0]))
    assert 160 < sums["loss"] < 200
    assert class_measures(sums)["auc"] == 0.0
    assert class_measures(class_sums(np.array([[1.0, 0.0], [0.0, 1.0]], np.float32), np.array([0, 1])))["auc"] == 1.0


def test_a_model_that_knows_nothing_is_worth_a_half():
    likely = np.full((50, 5), 0.2, np.float32)
    assert class_measures(class_sums(likely, np.arange(50) % 5))["auc"] == 0.5


@pytest.mark.parametrize("classes", [2, 5, 41])
@pytest.mark.parametrize("signal", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 4.0, 20.0])
def test_the_area_is_that_of_scikit_learn(scale, signal, classes):
    for seed in range(4):
        likely, label = predictions(seed, 400, classes, scale, signal)
        assert class_measures(class_sums(likely, label))["auc"] == pytest.approx(pooled_auc(likely, label), abs=0.005)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    nodes=st.integers(1, 200),
    classes=st.integers(2, 12),
    scale=st.sampled_from([0.02, 0.5, 2.0, 10.0]),
    signal=st.sampled_from([0.0, 1.0, 3.0]),
)
def test_accuracy_and_macro_f1_are_exactly_those_of_scikit_learn(seed, nodes, classes, scale, signal):
    likely, label = predictions(seed, nodes, classes, scale, signal)
    found, best = class_measures(class_sums(likely, label)), likely.argmax(1)
    assert found["accuracy"] == accuracy_score(label, best)
    assert found["macro_f1"] == pytest.approx(f1_score(label, best, average="macro"), rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), cuts=st.lists(st.integers(0, 90), max_size=4))
def test_clients_sums_add_up_to_those_of_all(seed, cuts):
    likely, label = predictions(seed, 90, 4, 1.0, 1.0)
    edges = [0, *sorted(cuts), 90]
    parts = [class_sums(likely[a:b], label[a:b]) for a, b in itertools.pairwise(edges)]
    whole = class_sums(likely, label)
    assert add(parts) == pytest.approx(whole, rel=1e-9)
    assert class_measures(add(parts)) == pytest.approx(class_measures(whole))


def test_a_class_that_is_claimed_and_never_there_counts_as_nothing():
    likely = np.array([[0.9, 0.1, 0.0], [0.1, 0.2, 0.7]], np.float32)
    found = class_measures(class_sums(likely, np.array([0, 0])))
    assert found["macro_f1"] == pytest.approx((2 / 3 + 0) / 2)
