"""Rows of features, of own nodes and of the halo."""

import numpy as np
import pytest
import torch
from scipy import sparse

from fedgraft.domains.nodes.base.features import FeatureRows
from fedgraft.nn.propagate import Sparse

OWN = np.array([[1, 0, 2], [0, 0, 0], [0, 3, 0]], np.float32)
HALO = np.array([[0, 0, 4], [5, 6, 0]], np.float32)
KINDS = {"dense": np.asarray, "sparse": sparse.csr_matrix}


def dense(found):
    return (found @ torch.eye(found.shape[1])).numpy() if isinstance(found, Sparse) else found.numpy()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [[4, 0, 2], [1], [0, 1, 2, 3, 4], [], [3, 1, 3]])
def test_rows_come_in_the_order_asked_for(kind, nodes):
    rows = FeatureRows(KINDS[kind](OWN), KINDS[kind](HALO))
    found = rows.rows(np.array(nodes, np.int64))
    assert isinstance(found, Sparse) == (kind == "sparse")
    assert tuple(found.shape) == (len(nodes), 3)
    np.testing.assert_array_equal(dense(found), np.concatenate([OWN, HALO])[nodes])


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_halo(kind):
    rows = FeatureRows(KINDS[kind](OWN), KINDS[kind](HALO[:0]))
    np.testing.assert_array_equal(dense(rows.rows(np.array([2, 0]))), OWN[[2, 0]])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_given_out_is_nobody_elses(kind):
    own = KINDS[kind](OWN.copy())
    rows = FeatureRows(own, KINDS[kind](HALO[:0]))
    found = rows.rows(np.arange(3))
    values = found if kind == "dense" else found.matrix.values
    values += 1
    np.testing.assert_array_equal(dense(rows.rows(np.arange(3))), OWN)


@pytest.mark.parametrize("nodes", [20, 800])
def test_products_and_gradients_are_those_of_dense_rows(nodes):
    g = np.random.default_rng(0)
    width = 60
    own = (g.standard_normal((nodes, width)) * (g.random((nodes, width)) < 0.1)).astype(np.float32)
    asked = g.permutation(nodes)[: nodes - 7]
    found = []
    for kind in KINDS.values():
        rows = FeatureRows(kind(own[5:]), kind(own[:5])).rows(asked)
        weights = torch.linspace(-1, 1, width * 4).reshape(width, 4).requires_grad_()
        product = rows @ weights
        product.square().sum().backward()
        found.append((product.detach(), weights.grad))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_dense_ones_are_never_copied():
    rows = FeatureRows(OWN, HALO)
    assert rows.dense.shape == (5, 3)
    assert np.shares_memory(rows.dense.upper.numpy(), OWN)
    assert np.shares_memory(rows.dense.lower.numpy(), HALO)
    assert FeatureRows(sparse.csr_matrix(OWN), sparse.csr_matrix(HALO)).dense is None


def test_memory_that_may_not_be_written_to_will_do():
    frozen = HALO.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(FeatureRows(OWN, frozen).rows(np.array([4])).numpy(), HALO[1:])
