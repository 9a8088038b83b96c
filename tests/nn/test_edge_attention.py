"""Attention along listed edges against plain indexing, and its gradient against finite differences."""

import pytest
import torch
from torch import Tensor

from fedgraft.nn import flops
from fedgraft.nn.edge_attention import Ends, attention, end_sums

HEADS, SENDERS, RECEIVERS, EDGES, WIDTH = 2, 6, 5, 40, 3


def drawn(dtype: torch.dtype = torch.float64) -> tuple[Ends, Tensor, Tensor, Tensor, Tensor]:
    """(ends, values, scores, times, scaling); receiver 4 has no edge, sender 5 neither, and edges repeat."""
    g = torch.Generator().manual_seed(0)
    sender = torch.randint(0, SENDERS - 1, (EDGES,), generator=g)
    receiver = torch.randint(0, RECEIVERS - 1, (EDGES,), generator=g).sort().values
    shapes = (HEADS, SENDERS, WIDTH), (HEADS, EDGES), (HEADS, EDGES)
    values, scores, scaling = (torch.randn(each, generator=g, dtype=dtype).requires_grad_() for each in shapes)
    times = torch.rand(EDGES, generator=g, dtype=dtype) + 0.5
    return Ends(sender, receiver, (RECEIVERS, SENDERS)), values, scores, times, scaling


def plain(ends: Ends, values: Tensor, scores: Tensor, times: Tensor, scaling: Tensor | None) -> Tensor:
    """The same by indexing, [heads, receivers, width]."""
    weights = scores.exp() * times
    total = torch.zeros(HEADS, RECEIVERS, dtype=values.dtype).index_add(1, ends.receiver, weights)
    used = weights / total[:, ends.receiver] * (1 if scaling is None else scaling)
    messages = used[:, :, None] * values[:, ends.sender]
    return torch.zeros(HEADS, RECEIVERS, WIDTH, dtype=values.dtype).index_add(1, ends.receiver, messages)


@pytest.mark.parametrize("scales", [True, False])
def test_it_is_that_of_plain_indexing(scales: bool) -> None:
    ends, values, scores, times, scaling = drawn()
    given = scaling if scales else None
    found, expected = (
        how(*of)
        for how, of in (
            (lambda: attention(values, scores, times, given, ends), ()),
            (plain, (ends, values, scores, times, given)),
        )
    )
    torch.testing.assert_close(found, expected)
    assert found[:, 4].eq(0).all()
    of = (values, scores, *([scaling] if scales else []))
    pull = torch.randn(found.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for one, other in zip(*(torch.autograd.grad(each, of, pull) for each in (found, expected)), strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_are_those_of_finite_differences() -> None:
    ends, values, scores, times, scaling = drawn()
    assert torch.autograd.gradcheck(lambda v, s, c: attention(v, s, times, c, ends), (values, scores, scaling))
    left, right = (torch.randn(HEADS, each, dtype=torch.float64).requires_grad_() for each in (RECEIVERS, SENDERS))
    assert torch.autograd.gradcheck(lambda a, b: end_sums(a, b, ends), (left, right))


def test_without_edges_all_is_zero() -> None:
    none = torch.zeros(0, dtype=torch.int64)
    values, scores = torch.ones(HEADS, SENDERS, WIDTH).requires_grad_(), torch.zeros(HEADS, 0).requires_grad_()
    ends = Ends(none, none, (RECEIVERS, SENDERS))
    mixed = attention(values, scores, torch.zeros(0), None, ends)
    mixed.sum().backward()
    assert mixed.shape == (HEADS, RECEIVERS, WIDTH)
    assert mixed.eq(0).all()
    assert values.grad is not None
    assert values.grad.eq(0).all()


def test_its_gradient_counts_twice() -> None:
    ends, values, scores, times, _ = drawn(torch.float32)
    with flops.Meter() as forward:
        mixed = attention(values, scores, times, None, ends)
    with flops.Meter() as backward:
        mixed.sum().backward()
    assert backward.flops == 2 * forward.flops == 4 * EDGES * HEADS * WIDTH
