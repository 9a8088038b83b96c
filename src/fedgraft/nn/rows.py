"""Rows and masks on a CPU by NumPy, which takes a half to an eighth of PyTorch's time for them; elsewhere by PyTorch.

PyTorch 2.13 gathers rows one copy at a time and compares into bool number by number. Both make the same bits. Nothing
here has a gradient.
"""

import numpy as np
import torch
from torch import Tensor


def taken(dense: Tensor, places: Tensor) -> Tensor:
    """Return rows [places, any] of `dense` [rows, any]; `places` are whole numbers, each in 0 .. rows - 1."""
    if not dense.is_cpu:
        return dense.index_select(0, places)
    # "clip" looks at no place twice; there is none to clip.
    return torch.from_numpy(dense.detach().numpy().take(places.numpy(), axis=0, mode="clip"))


def above_zero(values: Tensor, out: Tensor) -> None:
    """Write to `out`, bool, where values of its shape are above 0."""
    if values.is_cpu:
        np.greater(values.detach().numpy(), 0, out=out.numpy())
    else:
        torch.gt(values, 0, out=out)


def equal_there(values: Tensor, others: Tensor, mask: Tensor, out: Tensor) -> None:
    """Write to `out`, bool, where values equal others and a mask is true; all have one shape."""
    if values.is_cpu:
        same = np.equal(values.detach().numpy(), others.detach().numpy(), out=out.numpy())
        np.logical_and(same, mask.numpy(), out=same)
    else:
        torch.logical_and(values == others, mask, out=out)


def as_numbers(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 1 where a mask, bool, is true, else 0: from bytes, as PyTorch turns bool into numbers one by one."""
    return mask.view(torch.uint8).to(dtype)
