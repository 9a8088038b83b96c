"""Several labels with missing ones, by hand: what is missing has no part in losses, sums, units or constants."""

import math

import numpy as np
import pytest
import torch

from fedgraft.contracts.labels import Unit
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.metric_classes import MetricClasses
from fedgraft.domains.labels.numbers import Numbers
from fedgraft.domains.labels.several import Several
from fedgraft.errors import InputError

NAN = math.nan
NUMBERS = Several(Numbers(), ("wear", "noise"))
CLASSES = Several(Classes(("low", "high")), ("wear", "noise"))


def test_a_loss_is_the_mean_over_the_labels_that_there_are():
    outputs = torch.tensor([[1.0, 5.0], [2.0, 7.0], [3.0, 9.0]], requires_grad=True)
    label = torch.tensor([[3.0, 1.0], [NAN, 4.0], [NAN, NAN]])
    # Half the squares: 4 / 2 and 16 / 2, their mean; 9 / 2 alone; nothing.
    losses = NUMBERS.losses(outputs, label)
    assert losses.tolist() == [5.0, 4.5, 0.0]
    losses.sum().backward()
    assert outputs.grad.tolist() == [[-1.0, 2.0], [0.0, 3.0], [0.0, 0.0]]


def test_a_loss_of_classes_reads_the_logits_of_its_label():
    logits = torch.tensor([[0.0, 0.0, math.log(3.0), 0.0], [0.0, math.log(3.0), 9.0, 9.0]])
    losses = CLASSES.losses(logits, torch.tensor([[0, 0], [1, -1]]))
    assert losses.tolist() == pytest.approx([(math.log(2) - math.log(0.75)) / 2, -math.log(0.75)])
    assert CLASSES.width == 4


def test_sums_and_scores_are_of_what_there_is():
    outputs = torch.tensor([[1.0, 5.0], [2.0, 7.0], [3.0, 9.0]])
    label = torch.tensor([[3.0, 1.0], [NAN, 4.0], [2.0, NAN]])
    sums = NUMBERS.sums_of([(outputs[:2], label[:2]), (outputs[2:], label[2:])], Unit())
    assert tuple(sums) == NUMBERS.sums
    assert [sums[f"{name}_{k}"] for k in (0, 1) for name in ("squared_error", "count")] == [5.0, 2.0, 25.0, 2.0]
    wear, noise = math.sqrt(2.5), math.sqrt(12.5)
    assert NUMBERS.score(sums) == pytest.approx((wear + noise) / 2)
    measures = NUMBERS.measures(sums)
    assert measures["rmse_wear"] == pytest.approx(wear)
    assert measures["rmse_noise"] == pytest.approx(noise)
    assert measures["mae"] == pytest.approx((1.5 + 3.5) / 2)
    # A label that nobody has does not count.
    assert NUMBERS.score({**sums, "squared_error_1": 0.0, "count_1": 0.0}) == pytest.approx(wear)
    assert math.isnan(NUMBERS.score(dict.fromkeys(NUMBERS.sums, 0.0)))
    assert math.isnan(NUMBERS.score({}))


def test_every_label_has_a_unit_of_its_own():
    label = np.array([[2.0, 100.0], [4.0, NAN], [NAN, 300.0]])
    unit = NUMBERS.unit(label)
    assert [unit.mean.tolist(), unit.spread.tolist()] == [[3.0, 200.0], [1.0, 100.0]]
    np.testing.assert_array_equal(
        NUMBERS.standardize(label, unit), np.array([[-1, -1], [1, NAN], [NAN, 1]], np.float32)
    )
    answers = NUMBERS.answers(torch.tensor([[1.0, -2.0]]), unit)
    assert {name: column.tolist() for name, column in answers.items()} == {
        "prediction_wear": [4.0],
        "prediction_noise": [0.0],
    }
    np.testing.assert_array_equal(unit.around(np.array([7.0, NAN])).centre, [7.0, 200.0])


def test_constants_are_best_for_the_labels_that_there_are():
    numbers = np.array([[2.0, 100.0], [4.0, NAN], [NAN, 300.0]])
    assert NUMBERS.constant(numbers).tolist() == [3.0, 200.0]
    predicted = np.broadcast_to(NUMBERS.constant(numbers), numbers.shape)
    assert NUMBERS.agreement(predicted, numbers) == pytest.approx((1.0 + 100.0) / 2)
    classes = np.array([[1, -1], [1, 0], [0, 0], [-1, 1]])
    assert CLASSES.constant(classes).tolist() == [1, 0]
    assert CLASSES.agreement(np.broadcast_to([1, 0], classes.shape), classes) == pytest.approx(2 / 3)


def test_models_answer_together_label_by_label():
    one, other = torch.zeros(1, 4), torch.log(torch.tensor([[3.0, 1.0, 1.0, 1.0]]))
    shares = CLASSES.together([one, other]).exp()
    torch.testing.assert_close(shares, torch.tensor([[0.625, 0.375, 0.5, 0.5]]))
    torch.testing.assert_close(NUMBERS.together([torch.zeros(1, 2), torch.ones(1, 2)]), torch.full((1, 2), 0.5))


def test_a_loss_counts_as_often_as_the_weight_of_its_class_of_its_label_says():
    label, weights = torch.tensor([[0, 1], [1, -1]]), torch.tensor([[1.0, 3.0], [1.0, 5.0]])
    losses = CLASSES.losses(torch.zeros(2, 4), label, weights=weights)
    assert losses.tolist() == pytest.approx([(1 + 5) / 2 * math.log(2), 3 * math.log(2)])


def several(judged, names=("wear", "noise")):
    return Several(MetricClasses(("low", "high"), judged=judged, labels=len(names)), names)


def sums_of(kind, odds, label):
    """Sums by log odds of "high", [examples][labels]."""
    odds = torch.tensor(odds)
    logits = torch.stack([torch.zeros_like(odds), odds], dim=2).flatten(1)
    return kind.sums_of([(logits, torch.tensor(label))], Unit())


def test_areas_are_means_over_labels():
    kind = several("average_precision")
    odds = [[3.0, -3.0], [1.0, 3.0], [-1.0, 1.0], [-3.0, -1.0]]
    sums = sums_of(kind, odds, [[1, 1], [0, -1], [1, 0], [0, 0]])
    measures = kind.measures(sums)
    assert measures["average_precision_wear"] == pytest.approx((1 + 2 / 3) / 2)
    assert measures["average_precision_noise"] == pytest.approx(1 / 3)
    assert kind.score(sums) == measures["average_precision"] == pytest.approx(((1 + 2 / 3) / 2 + 1 / 3) / 2)
    assert measures["auc"] == pytest.approx((0.75 + 0.0) / 2)
    assert kind.chance(sums).value == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert kind.selection_metric(sums) == pytest.approx(kind.score(sums), abs=1e-8)


def test_a_label_that_has_no_score_has_no_part_in_the_choice():
    kind = several("auc")
    sums = sums_of(kind, [[3.0, 1.0], [-3.0, 2.0]], [[1, 0], [0, 0]])
    assert kind.score(sums) == 1.0
    assert kind.selection_metric(sums) == pytest.approx(1.0, abs=1e-8)
    assert kind.chance(sums).value == 0.5


def test_every_label_has_a_threshold_chosen_on_validation():
    kind = several("f1")
    validation = sums_of(kind, [[-3.0, 3.0], [-1.0, 1.0], [1.0, -1.0]], [[0, 0], [1, 0], [1, 1]])
    test = sums_of(kind, [[-3.0, 3.0], [-1.0, 1.0], [1.0, -1.0]], [[0, 1], [0, 0], [1, 1]])
    wear = 2 / 3  # two are taken for it, one rightly
    noise = kind.each.scores({"": kind._by_label(test)[1]}, kind._by_label(validation)[1])[""]
    assert kind.scores({"validation": validation, "test": test})["test"] == pytest.approx((wear + noise) / 2)
    decision_thresholds = kind.decision_thresholds({"validation": validation, "test": test})
    assert {name: decision["class"] for name, decision in decision_thresholds.items()} == {
        "wear": "low",
        "noise": "high",
    }


def test_bins_are_shared_by_labels():
    assert len(several("auc").sums) < 9000
    assert len(several("accuracy", tuple(map(str, range(50)))).sums) < 9000


def test_a_label_needs_a_name():
    with pytest.raises(InputError, match=r"Several\.names must be at least one; got \(\)\."):
        Several(Numbers(), ())
