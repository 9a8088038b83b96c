"""Matrices and tables that do not learn, against dense algebra."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.errors import InputError
from fedgraft.nn.sparse import Csr, Sparse, Stacked, int32

CORNERS = torch.tensor([[0, 0, 2.0, 0], [0, 0, 0, 0], [0, 4.0, 0, 1.0]])
"""A matrix with an empty row."""


def corners(small):
    rows, columns = CORNERS.nonzero().T.numpy()
    return Sparse(rows, columns, CORNERS[rows, columns].numpy(), (3, 4), small=small)


def entries_of(matrix):
    return matrix @ torch.eye(matrix.shape[1])


@pytest.mark.parametrize("small", [0, 100])
def test_a_sparse_matrix_scaled_and_with_ones_is_what_a_dense_one_would_be(small):
    rows, columns = torch.tensor([1.0, 2, 3]), torch.tensor([1.0, 10, 100, 1000])
    scaled = corners(small).scaled(rows, columns)
    assert torch.equal(entries_of(scaled), CORNERS * rows[:, None] * columns)
    assert torch.equal(entries_of(corners(small).scaled(rows)), CORNERS * rows[:, None])
    place = torch.tensor([2, 0, 2])
    ones = torch.zeros(3, 4).index_put_((torch.arange(3), place), torch.ones(3))
    made = corners(small).with_ones(place)
    assert torch.equal(entries_of(made), CORNERS + ones)
    weights = torch.ones(4, 2, requires_grad=True)
    (made @ weights).sum().backward()
    assert torch.equal(weights.grad[:, 0], (CORNERS + ones).sum(0))


def test_empty_rows_can_be_left_out_where_they_are_half():
    assert corners(0).filled() is None
    half = Sparse(np.array([1]), np.array([3]), np.ones(1, np.float32), (2, 4), small=0)
    rows, left = half.filled()
    assert rows.tolist() == [1]
    assert entries_of(left).tolist() == [[0, 0, 0, 1]]
    assert corners(100).filled() is None


@pytest.mark.parametrize("small", [0, 100])
def test_the_first_rows_are_made_once(small):
    matrix = corners(small)
    assert torch.equal(entries_of(matrix.head(1)), CORNERS[:1])
    assert matrix.head(1) is matrix.head(1)
    assert matrix.head(3) is matrix


def test_gradients_of_weights_are_added_to_what_is_there():
    matrix, weights = corners(0), torch.ones(4, 2, requires_grad=True)
    for times in (1, 2):
        (matrix @ weights).sum().backward()
        assert torch.equal(weights.grad, times * CORNERS.sum(0)[:, None].expand(4, 2))
    (matrix @ (2 * weights)).sum().backward()
    assert torch.equal(weights.grad, 4 * CORNERS.sum(0)[:, None].expand(4, 2))


@settings(deadline=None)  # what sums rows is compiled for each width
@given(st.integers(0, 5), st.integers(0, 5), st.sampled_from([1, 3, 64]), st.integers(0, 2**16))
def test_products_of_rows_are_torchs_own(rows, columns, width, seed):
    g = np.random.default_rng(seed)
    there = g.random((rows, columns)) < 0.5
    pointers, values = np.concatenate([[0], np.cumsum(there.sum(1))]), g.standard_normal(there.sum())
    lists = pointers.astype(np.int32), there.nonzero()[1].astype(np.int32), values.astype(np.float32)
    matrix = Csr(*map(torch.from_numpy, lists), columns)
    dense = torch.from_numpy(g.standard_normal((width, columns)).astype(np.float32)).t().requires_grad_()
    product = matrix @ dense
    assert (product.shape, product.requires_grad) == ((rows, width), False)
    torch.testing.assert_close(product, matrix.tensor.to_dense() @ dense.detach())


def test_two_tables_are_read_as_one_behind_the_other():
    stacked = Stacked(torch.ones(1, 2), 2 * torch.arange(6.0).reshape(3, 2))
    whole = torch.cat([stacked.upper, stacked.lower])
    assert stacked.shape == whole.shape
    for rows in ([3, 0, 1, 0], [0], [], [2]):
        assert torch.equal(stacked.take(torch.tensor(rows, dtype=torch.int64)), whole[rows])
    weights = torch.tensor([[1.0], [10.0]])
    assert torch.equal(stacked @ weights, whole @ weights)
    assert torch.equal(corners(0) @ stacked, CORNERS @ whole)
    few = Sparse(np.array([1, 2]), np.array([3, 0]), np.ones(2, np.float32), (5, 4), small=0)
    assert torch.equal(few @ stacked, entries_of(few) @ whole)
    only = Stacked(whole, whole[:0])
    assert torch.equal(corners(0) @ only, CORNERS @ whole)
    assert torch.equal(corners(0) @ only.to("cpu"), CORNERS @ whole)


def test_more_entries_than_pointers_can_count_are_refused():
    many = np.broadcast_to(np.int32(0), 2**31)  # of no memory
    with pytest.raises(InputError, match="Entries of a sparse matrix must be at most 2147483647; got 2147483648"):
        Sparse(many, many, np.broadcast_to(np.float32(1), 2**31), (1, 1), small=0)
    with pytest.raises(InputError, match="at most 2147483647; got 2147483653"):
        int32(np.array([0, 2**31 + 5]))
    assert int32(np.array([0, 2**31 - 1])).dtype == torch.int32
