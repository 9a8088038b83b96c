"""Transition probabilities against powers of the dense matrix."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.domains.ratings import graph
from fedgraft.domains.ratings.graph import Walks


def structure_of(matrix: np.ndarray) -> scipy.sparse.csr_matrix:
    structure = scipy.sparse.csr_matrix(matrix)
    structure.sort_indices()
    return structure


def test_a_triangle_with_a_tail_by_hand():
    # 0-1 weighs 2, 0-2 and 1-2 weigh 1, 2-3 weighs 1: degrees 3, 3, 3, 1
    matrix = np.array([[0, 2, 1, 0], [2, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]], dtype=float)
    structure = structure_of(matrix)
    found = Walks(structure).probabilities(structure.data, 2)
    edge = dict(zip(zip(*structure.nonzero(), strict=True), found.tolist(), strict=True))
    assert edge[0, 1] == pytest.approx([2 / 3, 2 / 3, 1 / 9, 1 / 9])  # 0 -> 2 -> 1: 1/3 x 1/3
    assert edge[0, 2] == pytest.approx([1 / 3, 1 / 3, 2 / 9, 2 / 9])  # 0 -> 1 -> 2: 2/3 x 1/3
    assert edge[2, 3] == pytest.approx([1 / 3, 1, 0, 0])  # no triangle


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.floats(0.0, 1.0), st.integers(0, 10_000), st.integers(1, 9))
def test_equal_to_dense_powers_on_present_edges(nodes, density, seed, chunk):
    g = np.random.default_rng(seed)
    upper = np.triu(g.random((nodes, nodes)) < density, 1)
    structure = structure_of((upper | upper.T).astype(float))
    weights = np.triu(g.integers(0, 6, (nodes, nodes)), 1)
    matrix = (weights + weights.T) * (upper | upper.T)
    degree = matrix.sum(1, keepdims=True)
    step = np.divide(matrix, degree, out=np.zeros(matrix.shape), where=degree > 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "CHUNK", chunk)
        rows, columns = structure.nonzero()
        found = Walks(structure).probabilities(matrix[rows, columns].astype(float), 3)
    powers = [step, step @ step, step @ step @ step]
    expected = np.stack([m for p in powers for m in (p[rows, columns], p.T[rows, columns])], 1).reshape(-1, 6)
    np.testing.assert_allclose(found, expected * (matrix[rows, columns] > 0)[:, None], atol=1e-12)
