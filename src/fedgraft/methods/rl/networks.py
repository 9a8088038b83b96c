"""Small networks of agents, as trees of arrays: perceptrons, steps of Adam, and targets that follow."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.nn.layers import linear
from fedgraft.wire.layouts import Arrays

Vector: TypeAlias = NDArray[np.float32]
Moments: TypeAlias = dict[str, Arrays]
"""{parameter: {"step", "exp_avg", "exp_avg_sq"}}, what Adam keeps of each; empty before the first step."""

BETAS = 0.9, 0.999
EPSILON = 1e-8


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread: sums are added in another order on several, and results would differ in their last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def seeded(g: np.random.Generator) -> torch.Generator:
    """Return a generator of torch, seeded by a draw."""
    return torch.Generator().manual_seed(int(g.integers(2**63)))


def drawn(shapes: Sequence[tuple[int, int]], g: torch.Generator) -> Arrays:
    """Return linear layers of (inputs, outputs), drawn: {"0.weight": [outputs, inputs], "0.bias": [outputs], ...}."""
    layers = [linear(inputs, outputs, g) for inputs, outputs in shapes]
    return {
        f"{k}.{name}": parameter.detach().numpy()
        for k, layer in enumerate(layers)
        for name, parameter in layer.named_parameters()
    }


def tensors(arrays: Arrays, learns: bool = False) -> dict[str, Tensor]:
    """Return arrays as tensors of their shapes; as copies that gradients are taken of where `learns`."""
    if not learns:  # what came over the wire cannot be written to, and torch warns of that
        return {
            name: torch.from_numpy(array if array.flags.writeable else array.copy()) for name, array in arrays.items()
        }
    return {name: torch.from_numpy(array.copy()).requires_grad_() for name, array in arrays.items()}


def layer(parameters: Mapping[str, Tensor], k: int, inputs: Tensor) -> Tensor:
    """Return what layer k makes of its inputs, float32 [..., outputs]."""
    return torch.nn.functional.linear(inputs, parameters[f"{k}.weight"], parameters[f"{k}.bias"])


def forward(parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    """Return what a perceptron makes of its inputs, float32 [..., outputs]: ReLU between layers, none at the end."""
    last = len(parameters) // 2 - 1
    for k in range(last):
        inputs = torch.relu(layer(parameters, k, inputs))
    return layer(parameters, last, inputs)


def moved(
    parameters: Mapping[str, Tensor], loss: Tensor, moments: Mapping[str, Arrays], rate: float, decay: float = 0.0
) -> tuple[Arrays, Moments]:
    """Return parameters after a step of Adam down the loss, and Adam's new moments (Kingma and Ba, ICLR 2015).

    Args:
        parameters: copies, of any shapes, that gradients can be taken of; they become what is returned.
        loss: a scalar made of them.
        moments: of the last step.
        rate: > 0.
        decay: of an L2 penalty, >= 0.
    """
    gradients = torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True)  # 0 for what has no part
    after: Moments = {}
    with torch.no_grad():
        for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True):
            after[name] = _step(parameter, gradient, moments.get(name), rate, decay)
    return {name: parameter.detach().numpy() for name, parameter in parameters.items()}, after


def followed(target: Arrays, source: Arrays, tau: float) -> Arrays:
    """Return parameters of a target after it went a share `tau` of the way to its source."""
    return {name: (tau * source[name] + (1 - tau) * kept).astype(np.float32) for name, kept in target.items()}


def _step(parameter: Tensor, gradient: Tensor, kept: Arrays | None, rate: float, decay: float) -> Arrays:
    """Change a parameter in place; return its new moments."""
    if decay:
        gradient = gradient.add(parameter, alpha=decay)
    if kept is None:
        step, first, second = 1.0, torch.zeros_like(parameter), torch.zeros_like(parameter)
    else:
        step = float(kept["step"]) + 1
        first, second = (torch.from_numpy(kept[name].copy()) for name in ("exp_avg", "exp_avg_sq"))
    first.lerp_(gradient, 1 - BETAS[0])
    second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    size = second.sqrt().div_((1 - BETAS[1] ** step) ** 0.5).add_(EPSILON)
    parameter.addcdiv_(first, size, value=-rate / (1 - BETAS[0] ** step))
    return {"step": np.array(step, np.float32), "exp_avg": first.numpy(), "exp_avg_sq": second.numpy()}
