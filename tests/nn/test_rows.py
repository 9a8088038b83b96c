"""Rows and masks by NumPy are PyTorch's, bit by bit, whatever is in them."""

import pytest
import torch

from fedgraft.nn.edge_messages import above_zero, as_numbers, equal_there, taken

VALUES = torch.tensor([[1.0, -0.0, float("nan")], [float("inf"), -2.0, 0.0], [1e-45, -float("inf"), 3.0]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("places", [[2, 0, 0, 1], []])
def test_rows_are_those_of_index_select(dtype: torch.dtype, places: list[int]) -> None:
    dense, at = VALUES.to(dtype).requires_grad_(), torch.tensor(places, dtype=torch.int64)
    found, expected = taken(dense, at), dense.detach().index_select(0, at)
    assert found.numpy().tobytes() == expected.numpy().tobytes()
    assert torch.equal(taken(dense.detach() > 0, at), expected > 0)
    assert taken(dense[:0], at[:0]).shape == (0, 3)
    assert torch.equal(taken(VALUES[:1].expand(3, 3)[:, :2], torch.tensor([1])), VALUES[:1, :2])


def test_comparisons_are_pytorchs() -> None:
    out, mask = torch.ones(3, 3, dtype=torch.bool), torch.tensor([[True, False, True]]).repeat(3, 1)
    above_zero(VALUES, out)
    assert torch.equal(out, VALUES > 0)
    others = VALUES.clone()
    others[1, 0] = 7.0
    equal_there(VALUES, others, mask, out)
    assert torch.equal(out, (others == VALUES) & mask)
    assert torch.equal(as_numbers(out, torch.float64), out.to(torch.float64))
