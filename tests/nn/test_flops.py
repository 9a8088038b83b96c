"""Operations are counted where products are executed: a multiply-add is two."""

import numpy as np
import torch

from fedgraft.nn import flops
from fedgraft.nn.layers import linear, row_linear
from fedgraft.nn.propagate import Sparse

G = torch.Generator().manual_seed(0)


def test_a_linear_layer_counts_its_product_and_those_of_the_gradients():
    layer = linear(3, 5, G)
    with flops.Meter() as forward, torch.no_grad():
        layer(torch.ones(7, 3))
    with flops.Meter() as weights:
        layer(torch.ones(7, 3))
    with flops.Meter() as both:
        layer(torch.ones(7, 3, requires_grad=True))
    assert (forward.flops, weights.flops, both.flops) == (2 * 7 * 3 * 5, 2 * 2 * 7 * 3 * 5, 3 * 2 * 7 * 3 * 5)


def test_a_sparse_product_counts_stored_entries():
    eye = np.arange(400)
    matrix = Sparse(eye, eye, np.ones(400, np.float32), (400, 400))
    layer = row_linear(400, 5, G)
    with flops.Meter() as forward, torch.no_grad():
        layer(matrix)
    with flops.Meter() as trained:
        layer(matrix)
    assert (forward.flops, trained.flops) == (2 * 400 * 5, 2 * 2 * 400 * 5)


def test_a_small_one_is_stored_with_zeros_and_counts_them():
    matrix = Sparse(np.arange(4), np.arange(4), np.ones(4, np.float32), (4, 6))
    with flops.Meter() as meter:
        matrix @ torch.ones(6, 5)
    assert meter.flops == 2 * 4 * 6 * 5


def test_nobody_counts_unless_asked_and_an_inner_meter_keeps_what_is_its_own():
    flops.count(1)
    with flops.Meter() as outer:
        flops.count(1)
        with flops.Meter() as inner:
            flops.count(10)
    assert (outer.flops, inner.flops) == (2, 20)


def test_an_inner_meter_that_counts_nothing_leaves_the_outer_one_counting():
    with flops.Meter() as outer:
        with flops.Meter():
            pass
        flops.count(3)
    assert outer.flops == 6
