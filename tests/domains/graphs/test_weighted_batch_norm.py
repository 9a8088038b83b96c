"""Batch normalisation of rows that stand for several."""

import torch

from fedgraft.domains.graphs.model import SharedNorm


def test_by_hand():
    """Rows 1 and 5, the first three times: mean 2, variance 3."""
    norm = SharedNorm(1, epsilon=0.0)
    found = norm(torch.tensor([[1.0], [5.0]]), torch.tensor([0.75, 0.25]))
    torch.testing.assert_close(found[:, 0], torch.tensor([-1.0, 3.0]) / 3**0.5)
    torch.testing.assert_close(torch.cat([norm.running_mean, norm.running_var]), torch.tensor([0.2, 1.2]))
    norm.eval()
    torch.testing.assert_close(norm(torch.tensor([[1.4]]), torch.ones(1)), torch.tensor([[1.2 / 1.2**0.5]]))


def test_rows_written_out_are_torchs():
    g = torch.Generator().manual_seed(0)
    rows = torch.randn(4, 3, generator=g, requires_grad=True)
    times = torch.tensor([3, 1, 2, 4])
    ours, theirs = SharedNorm(3), torch.nn.BatchNorm1d(3)
    weights = torch.randn(4, 3, generator=g)
    (ours(rows, times / times.sum()) * weights * times[:, None]).sum().backward()
    gradient, rows.grad = rows.grad, None
    written_out = rows.repeat_interleave(times, 0)
    (theirs(written_out) * weights.repeat_interleave(times, 0)).sum().backward()
    torch.testing.assert_close(gradient, rows.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    torch.testing.assert_close(ours.bias.grad, theirs.bias.grad)


def test_gradients_are_those_of_differences():
    g = torch.Generator().manual_seed(0)
    norm = SharedNorm(2).double()
    rows = torch.randn(5, 2, generator=g, dtype=torch.float64, requires_grad=True)
    share = torch.rand(5, generator=g, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: norm(x, share / share.sum()), (rows,))
