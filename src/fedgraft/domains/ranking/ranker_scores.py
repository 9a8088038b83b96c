"""Scores of many users for many items: interactions of every channel, weighted by attention, with their gradient.

For one factor, a pair of user and item has an interaction x_s for each channel s of the item. Its score is

    sum_s alpha_s GELU(x_s),    alpha = softmax over s of (output . tanh(user + item) + bias)

where `user` and `item` are what the attention's first layer makes of either end. No pair is put together before that:
the layer is a sum of a user's part and an item's part, and so is made once for each end.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu

LARGEST = 40.0
"""Most that an input of tanh may be away from 0; behind it float32 knows no other value than -1 and 1."""


def attended(interactions: Sequence[Tensor], user: Tensor, item: Tensor, output: Tensor, bias: Tensor) -> Tensor:
    """Return the scores of pairs for one factor, float32 [users, items].

    Gradients of all arguments are written by hand; autograd over the entrywise steps takes about twice as long.

    Args:
        interactions: float32 [users, items] for each channel, at least two: products of user and item.
        user: float32 [hidden, users, 1], the users' part of the attention's first layer, its bias included.
        item: float32 [hidden, 1 or users, items], the items' part; users where each user has items of its own.
        output: float32 [channels, hidden], weights of the attention's second layer.
        bias: float32 [channels], its bias.
    """
    if not torch.is_grad_enabled():
        odds = _odds(user, item, output, bias)[1]
        total, made = odds[0] + 1, gelu(interactions[0])
        for odd in odds[1:]:
            total += odd
        for odd, interaction in zip(odds, interactions[1:], strict=True):
            made.addcmul_(odd, gelu(interaction))
        return made.div_(total)
    scores: Tensor = _Attended.apply(user, item, output, bias, *interactions)  # type: ignore[no-untyped-call]
    return scores


def _odds(user: Tensor, item: Tensor, output: Tensor, bias: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """(1 - tanh) / 2 of each hidden unit, and exp(logit - first logit) of each channel but the first."""
    # tanh(u + i) = 1 - 2 / (1 + exp(2u) exp(2i)): exponentials by row and by column in place of tanh by pair.
    users, items = ((2 * part).clamp_(-LARGEST, LARGEST).exp_() for part in (user, item))
    halves = [torch.mul(*pair).add_(1).reciprocal_() for pair in zip(users, items, strict=True)]
    # Logits are told from the first channel's, which saves one of them.
    slopes = output[1:] - output[0]
    levels = bias[1:] - bias[0] + slopes.sum(1)
    odds = []
    for level, slope in zip(levels, (-2 * slopes).tolist(), strict=True):
        logit = torch.add(level, halves[0], alpha=slope[0])
        for half, weight in zip(halves[1:], slope[1:], strict=True):
            logit.add_(half, alpha=weight)
        odds.append(logit.exp_())
    return halves, odds


class _Attended(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, user: Tensor, item: Tensor, output: Tensor, bias: Tensor, *interactions: Tensor) -> Tensor:
        halves, odds = _odds(user, item, output, bias)
        active = [gelu(interaction) for interaction in interactions]
        first = torch.stack(odds).sum(0).add_(1) if len(odds) > 1 else odds[0] + 1
        first.reciprocal_()
        scores = active[0] * first
        for odd, its in zip(odds, active[1:], strict=True):
            scores.addcmul_(odd.mul_(first), its)
        ctx.save_for_backward(output, scores, *halves, *interactions, *active, first, *odds)
        ctx.shapes = user.shape[1:], item.shape[1:]
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        output, scores, *saved = ctx.saved_tensors
        channels, units = output.shape
        halves = saved[:units]
        interactions, active, shares = (saved[units + part * channels :][:channels] for part in range(3))
        back, logits = [], []
        for interaction, its, share in zip(interactions, active, shares, strict=True):
            weighted = gradient * share
            back.append(torch.ops.aten.gelu_backward(weighted, interaction))
            logits.append(weighted.mul_(its - scores))
        del logits[0]  # of the first channel's logit the gradient is minus the sum of the others'
        slopes = (4 * (output[1:] - output[0])).t().tolist()
        users, items, products = [], [], []
        for half, slope in zip(halves, slopes, strict=True):
            products.append(torch.stack([torch.dot(logit.view(-1), half.view(-1)) for logit in logits]))
            steep = torch.addcmul(half, half, half, value=-1)  # 1 - tanh^2 = 4 (half - half^2)
            # With two channels the one weight comes in behind the sums, which are small.
            steep.mul_(logits[0] if len(logits) == 1 else _weighted(logits, slope))
            scale = slope[0] if len(logits) == 1 else 1.0
            users.append(scale * steep.sum_to_size(ctx.shapes[0]))
            items.append(scale * steep.sum_to_size(ctx.shapes[1]))
        levels = torch.stack([logit.sum() for logit in logits])
        weights = levels[:, None] - 2 * torch.stack(products, 1)
        # Before the others' the first channel's part: what makes the sum zero.
        centred = [torch.cat([-part.sum(0, keepdim=True), part]) for part in (weights, levels)]
        return torch.stack(users), torch.stack(items), *centred, *back


def _weighted(tensors: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """The sum of tensors, each times a number."""
    total = tensors[0] * weights[0]
    for tensor, weight in zip(tensors[1:], weights[1:], strict=True):
        total.add_(tensor, alpha=weight)
    return total
