"""A linear layer behind all hops: in parts as in one place, by hand, and as ridge regression has it."""

import numpy as np
from sklearn.linear_model import Ridge

from fedgraft.domains.closed_form import PENALTIES
from fedgraft.domains.labels.ridge_fits import BIAS, GRAM, WEIGHT, Refit


def drawn(count=60, columns=5, classes=3, seed=0):
    g = np.random.default_rng(seed)
    rows = g.normal(size=(count, columns)).astype(np.float32)
    return rows, (rows[:, :classes] + g.normal(size=(count, classes)) / 3).argmax(1)


def test_two_examples_by_hand():
    """Z = [[1, 2], [3, 4]] of classes 0 and 1: Z^T Z, with a column of ones, and Z^T Y."""
    sums = Refit(2, 2).sums(np.array([[1, 2], [3, 4]], np.float32), np.array([0, 1]))
    assert sums["diagonal"].tolist() == [10, 20, 2]
    most = np.sqrt([10 * 20, 10 * 2, 20 * 2])
    assert sums[GRAM].tolist() == np.rint(32767 * np.array([14, 4, 6]) / most).tolist()
    assert sums["cross"].tolist() == [[1, 3], [2, 4], [1, 1]]
    assert sums["squares"].tolist() == [1, 1]


def test_one_example_tells_nothing():
    sums = Refit(2, 2).sums(np.array([[1, 2]], np.float32), np.array([0]))
    assert not any(array.any() for array in sums.values())


def test_clients_together_fit_what_one_place_would():
    refit, (rows, label) = Refit(5, 3), drawn()
    parts = [refit.sums(rows[part], label[part]) for part in np.split(np.arange(60), [10, 35])]
    together, apart = refit.layer([refit.sums(rows, label)]), refit.layer(parts)
    assert np.allclose(together[WEIGHT], apart[WEIGHT], atol=1e-3)
    assert np.allclose(together[BIAS], apart[BIAS], atol=1e-3)


def test_it_is_the_ridge_regression_of_one_of_the_penalties():
    rows, label = drawn()
    layer, centred = Refit(5, 3).layer([Refit(5, 3).sums(rows, label)]), rows - rows.mean(0)
    scale = np.linalg.eigvalsh(centred.T @ centred).mean()
    fitted = [Ridge(alpha=each * scale).fit(rows, np.eye(3)[label]).coef_ for each in PENALTIES]
    assert min(np.abs(layer[WEIGHT] - each).max() for each in fitted) < 1e-3


def test_answers_are_probabilities_and_right_where_classes_are_apart():
    rows, label = drawn()
    refit = Refit(5, 3)
    shares = refit.answers(rows, refit.layer([refit.sums(rows, label)]))
    assert np.allclose(shares.sum(1), 1, atol=1e-6)
    assert (shares.argmax(1) == label).mean() > 0.75
    assert refit.answers(rows[:0], refit.layer([refit.sums(rows, label)])).shape == (0, 3)
