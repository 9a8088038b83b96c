"""What answers lack of a client's own labels: by hand, as ridge regression has it, and by either of its two systems."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.kernel_ridge import KernelRidge

from fedgraft.domains.labels.ridge_fits import CONSTANT, LocalFit


def drawn(seed=0, count=12, columns=(5, 3), classes=3):
    g = np.random.default_rng(seed)
    blocks = [g.normal(size=(count, width)).astype(np.float32) for width in columns]
    return blocks, g.integers(0, classes, count), g.dirichlet(np.ones(classes), count).astype(np.float32)


def products(blocks, train):
    """K of all examples, [n, n]."""
    lengths = [np.square(block[train].astype(float)).sum(1).mean() for block in blocks]
    parts = [
        block.astype(float) @ block.T.astype(float) / length for block, length in zip(blocks, lengths, strict=True)
    ]
    return np.mean(parts, axis=0) + CONSTANT


def test_one_training_example_by_hand():
    """Lengths are 1, so K_tt = 1.01; with p = 0.01 errors [0.4, -0.4] are divided by 1.02."""
    inputs = np.array([[1, 0], [0.6, 0.8]], np.float32)
    answers = np.array([[0.6, 0.4], [0.5, 0.5]], np.float32)
    found = LocalFit([inputs], np.array([0]), np.array([0, 1])).fitted(answers, 0.01)
    by = np.array([[1.01], [0.61]]) / 1.02
    assert np.allclose(found, answers + by * [[0.4, -0.4]], atol=1e-6)


@pytest.mark.parametrize("penalty", [3.0, 0.03])
def test_it_is_kernel_ridge_regression_of_errors(penalty):
    (blocks, label, answers), train = drawn(), np.array([0, 3, 4, 7])
    inner = products(blocks, train)
    model = KernelRidge(alpha=penalty, kernel="precomputed")
    model.fit(inner[np.ix_(train, train)], np.eye(3)[label[train]] - answers[train])
    found = LocalFit(blocks, train, label).fitted(answers, penalty)
    assert np.allclose(found, answers + model.predict(inner[:, train]), atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(9, 14), is_sparse=st.booleans())
def test_by_columns_is_what_it_is_by_examples(seed, count, is_sparse):
    blocks, label, answers = drawn(seed, count)
    train, kind = np.arange(count), sparse.csr_matrix if is_sparse else np.asarray
    by_columns = LocalFit([kind(block) for block in blocks], train, label)  # eight columns for more examples
    wide = [np.concatenate([block, np.zeros((count, 40), np.float32)], axis=1) for block in blocks]
    by_examples = LocalFit([kind(block) for block in wide], train, label)
    assert np.allclose(by_columns.fitted(answers, 0.3), by_examples.fitted(answers, 0.3), atol=1e-5)


def test_without_training_examples_answers_stay():
    blocks, label, answers = drawn()
    assert LocalFit(blocks, np.zeros(0, np.int64), label).fitted(answers, 1.0) is answers


def test_columns_of_zeros_and_equal_examples_are_fine():
    fit = LocalFit([np.zeros((4, 2), np.float32)], np.array([0, 1]), np.array([0, 0, 1, 1]))
    found = fit.fitted(np.full((4, 2), 0.5, np.float32), 0.03)
    assert np.isfinite(found).all()
    assert (found == found[0]).all()  # an intercept alone
