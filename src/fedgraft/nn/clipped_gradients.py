"""Gradients of single examples, each shortened to a length, and their sum: of layers that look at one row at a time.

An example's gradient of a linear layer is an outer product: of what the layer read, with a 1 behind it for the bias,
and of the gradient of what it gave. So its length is known without the gradient itself.

Source: Goodfellow, "Efficient Per-Example Gradient Computations", arXiv:1510.01799 (lengths); Abadi et al., "Deep
    Learning with Differential Privacy", CCS 2016 (each is divided by max(1, length / longest)).
Differs: all in doubles, so that a sum with an example and one without differ by that example's part, and not by what
    adding them in single precision has lost.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from fedgraft.nn import flops
from fedgraft.nn.layers import Linear, RowLinear
from fedgraft.wire.layouts import Array, Arrays

LossesOf = Callable[[Tensor], tuple[Tensor, Callable[[Tensor], Tensor]]]
"""Given logits [rows, outputs]: losses [rows], and what makes the gradient of the logits of that of the losses."""
RowLayer = Linear | RowLinear
"""A layer that looks at one row at a time."""


def clipped_gradients(
    model: nn.Module, layers: Sequence[RowLayer], inputs: Array, losses_of: LossesOf, longest: float
) -> Arrays:
    """Return the sum over rows of each row's gradient of its loss, shortened to `longest`.

    Args:
        model: whose parameters those of the layers are.
        layers: one behind the other, a relu between two.
        inputs: float [rows, width].
        losses_of: of the last layer's output.
        longest: most Euclidean length of one row's gradient, over all parameters, > 0.

    Returns:
        {name of a parameter: float64 of its shape}.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    states, gradients = _differentiated(layers, inputs, losses_of)
    squares = torch.zeros(len(inputs), dtype=torch.float64, device=gradients[0].device)
    for layer, state, each in zip(layers, states, gradients, strict=True):
        squares += (state.square().sum(1) + (layer.bias is not None)) * each.square().sum(1)
    factors = longest / squares.sqrt().clamp(min=longest)
    if not bool(
        (sound := squares.isfinite()).all()
    ):  # a model of huge numbers: such a row has no part, and says nothing
        states, gradients = ([torch.where(sound[:, None], each, 0.0) for each in some] for some in (states, gradients))
        factors = torch.where(sound, factors, 0.0)
    found: Arrays = {}
    for layer, state, each in zip(layers, states, gradients, strict=True):
        shortened = factors[:, None] * each
        product = state.t() @ shortened if isinstance(layer, RowLinear) else shortened.t() @ state
        flops.count(3 * state.numel() * each.shape[1])  # forward, and both products back, as autograd's
        found[names[id(layer.weight)]] = product.numpy(force=True)
        if layer.bias is not None:
            found[names[id(layer.bias)]] = shortened.sum(0).numpy(force=True)
    return found


def each_gradient(model: nn.Module, layers: Sequence[RowLayer], inputs: Array, losses_of: LossesOf) -> Arrays:
    """Return each row's gradient of its loss as it is, {name of a parameter: float64 [rows, *its shape]}.

    Arguments are as of `clipped_gradients`. It takes rows times parameters doubles.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found: Arrays = {}
    for layer, state, each in zip(layers, *_differentiated(layers, inputs, losses_of), strict=True):
        first, second = (state, each) if isinstance(layer, RowLinear) else (each, state)
        found[names[id(layer.weight)]] = (first[:, :, None] * second[:, None, :]).numpy(force=True)
        if layer.bias is not None:
            found[names[id(layer.bias)]] = each.numpy(force=True)
    return found


def _differentiated(
    layers: Sequence[RowLayer], inputs: Array, losses_of: LossesOf
) -> tuple[list[Tensor], list[Tensor]]:
    """What each layer reads, and the gradient of each row's loss by what it gives: float64 [rows, width] each."""
    weights = [_weight(layer) for layer in layers]
    states, gradient = _passed(layers, weights, inputs, losses_of)
    gradients = [gradient]
    for weight, state in zip(reversed(weights[1:]), reversed(states[1:]), strict=True):
        gradient = (gradient @ weight) * (state > 0)
        gradients.insert(0, gradient)
    return states, gradients


def _passed(
    layers: Sequence[RowLayer], weights: Sequence[Tensor], inputs: Array, losses_of: LossesOf
) -> tuple[list[Tensor], Tensor]:
    """What each layer reads, float64 [rows, width] each, and the gradient of each row's loss by its logits."""
    states = [torch.from_numpy(inputs).to(weights[0].device, torch.float64)]
    for number, (layer, weight) in enumerate(zip(layers, weights, strict=True)):
        output = states[-1] @ weight.t()
        if layer.bias is not None:
            output += layer.bias.detach().double()
        if number < len(layers) - 1:
            states.append(torch.relu(output))
    losses, back = losses_of(output)
    return states, back(torch.ones_like(losses))


def _weight(layer: RowLayer) -> Tensor:
    """Weights, float64 [outputs, inputs]."""
    weight = layer.used.detach().double()
    return weight.t() if isinstance(layer, RowLinear) else weight
