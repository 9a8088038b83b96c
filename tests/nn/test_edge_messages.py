"""Messages along edges against plain indexing, and their gradient against finite differences."""

import pytest
import torch
from torch import Tensor

from fedgraft.nn import edge_messages as kernel
from fedgraft.nn import flops
from fedgraft.nn.edge_messages import Fan, edge_messages, means_and_maxima

SENDERS, RECEIVERS, EDGES, COLUMNS, WIDTH = 6, 5, 40, 3, 4


def drawn(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(sent, weight, sender, receiver, times, values); receiver 4 has no edge, sender 5 neither, and edges repeat."""
    g = torch.Generator().manual_seed(0)
    sent, weight, values = (
        torch.randn(shape, generator=g, dtype=dtype) for shape in ((SENDERS, WIDTH), (WIDTH, COLUMNS), (EDGES, COLUMNS))
    )
    sender = torch.randint(0, SENDERS - 1, (EDGES,), generator=g)
    receiver = torch.randint(0, RECEIVERS - 1, (EDGES,), generator=g).sort().values
    times = torch.rand(EDGES, generator=g, dtype=dtype) + 0.5
    return sent.requires_grad_(), weight.requires_grad_(), sender, receiver, times, values


def plain(sent: Tensor, mapped: Tensor | None, sender: Tensor, receiver: Tensor, times: Tensor) -> Tensor:
    """The same by indexing, [receivers, width]."""
    messages = torch.relu(sent[sender] if mapped is None else sent[sender] + mapped)
    return averaged(messages, receiver, times)


def averaged(messages: Tensor, receiver: Tensor, times: Tensor) -> Tensor:
    """Means of messages, [receivers, width]."""
    total = torch.zeros(RECEIVERS, dtype=messages.dtype).index_add(0, receiver, times)
    sums = torch.zeros(RECEIVERS, WIDTH, dtype=messages.dtype).index_add(0, receiver, times[:, None] * messages)
    return sums / total.clamp(min=1e-9)[:, None]


@pytest.mark.parametrize("piece", [1, 7, 1 << 12])
@pytest.mark.parametrize("reads", [True, False])
def test_they_are_those_of_plain_indexing(piece: int, reads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, and in pieces of a few edges."""
    monkeypatch.setattr(kernel, "PIECE", piece)
    sent, weight, sender, receiver, times, values = drawn()
    fan = Fan(sender, receiver, times, values, (RECEIVERS, SENDERS))
    found = edge_messages(sent, weight if reads else None, fan)
    expected = plain(sent, values @ weight.t() if reads else None, sender, receiver, times)
    torch.testing.assert_close(found, expected)
    assert found[4].eq(0).all()
    of = (sent, weight) if reads else (sent,)
    pull = torch.randn(RECEIVERS, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for one, other in zip(*(torch.autograd.grad(each, of, pull) for each in (found, expected)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("reads", [True, False])
def test_the_gradient_is_that_of_finite_differences(reads: bool) -> None:
    sent, weight, sender, receiver, times, values = drawn()
    fan = Fan(sender, receiver, times, values, (RECEIVERS, SENDERS))
    if reads:
        assert torch.autograd.gradcheck(lambda s, w: edge_messages(s, w, fan), (sent, weight))
    else:
        assert torch.autograd.gradcheck(lambda s: edge_messages(s, None, fan), (sent,))


@pytest.mark.parametrize("piece", [1, 7, 1 << 12])
@pytest.mark.parametrize("reads", [True, False])
def test_maxima_are_those_of_plain_indexing(piece: int, reads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside means; of equal messages, as of an edge that is there twice, each has its share of the gradient."""
    monkeypatch.setattr(kernel, "PIECE", piece)
    sent, weight, sender, receiver, times, values = drawn()
    sender[1:3], receiver[1:3], values[1:3] = sender[0], receiver[0], values[0]
    fan = Fan(sender, receiver, times, values, (RECEIVERS, SENDERS))
    messages = torch.relu(sent[sender] + values @ weight.t() if reads else sent[sender])
    at = receiver[:, None].expand_as(messages)
    expected = (
        averaged(messages, receiver, times),
        torch.zeros(RECEIVERS, WIDTH, dtype=torch.float64).scatter_reduce(0, at, messages, "amax", include_self=False),
    )
    found = means_and_maxima(sent, weight if reads else None, fan)
    torch.testing.assert_close(found, expected)
    assert torch.equal(found[0], edge_messages(sent, weight if reads else None, fan))
    of = (sent, weight) if reads else (sent,)
    g = torch.Generator().manual_seed(1)
    pull = [torch.randn(RECEIVERS, WIDTH, generator=g, dtype=torch.float64) for _ in found]
    for one, other in zip(*(torch.autograd.grad(each, of, pull) for each in (found, expected)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("reads", [True, False])
def test_the_gradient_of_maxima_is_that_of_finite_differences(reads: bool) -> None:
    sent, weight, sender, receiver, times, values = drawn()
    fan = Fan(sender, receiver, times, values, (RECEIVERS, SENDERS))
    if reads:
        assert torch.autograd.gradcheck(lambda s, w: means_and_maxima(s, w, fan), (sent, weight))
    else:
        # Edges of one sender and receiver are equal then: where the largest are, all move alike.
        assert torch.autograd.gradcheck(lambda s: means_and_maxima(s, None, fan), (sent,))


def test_without_edges_all_is_zero() -> None:
    sent, weight, sender, receiver, times, values = (each[:0] if len(each) == EDGES else each for each in drawn())
    means = edge_messages(sent, weight, Fan(sender, receiver, times, values, (RECEIVERS, SENDERS)))
    means.sum().backward()
    assert means.shape == (RECEIVERS, WIDTH)
    assert means.eq(0).all()
    assert all(each.grad is not None and each.grad.eq(0).all() for each in (sent, weight))


def test_a_pass_and_its_gradient_count_alike() -> None:
    sent, weight, sender, receiver, times, values = drawn(torch.float32)
    fan = Fan(sender, receiver, times, values, (RECEIVERS, SENDERS))
    with flops.Meter() as forward:
        means = edge_messages(sent, weight, fan)
    with flops.Meter() as backward:
        means.sum().backward()
    assert forward.flops == backward.flops == 2 * EDGES * WIDTH * (1 + COLUMNS)
