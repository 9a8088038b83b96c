"""Losses of a ranker: a taken item against sampled ones, and factors that are to be independent."""

import itertools
import math

import torch
from torch import Tensor
from torch.nn.functional import relu

SAMPLED = 128
"""Most items that the independence of factors is told from: the cost grows with the square."""
LEAST = 1e-8
"""What keeps the gradient of a root finite at 0."""


def sampled_softmax(taken: Tensor, others: Tensor, had: Tensor, items: int) -> Tensor:
    """Return the cross-entropy of a softmax over the taken item and the others, float32 [n].

    The others, float32 [n, drawn], stand for all items: with n of N drawn, each counts N / n times. Those that the user
    has, bool [n, drawn], do not count. `taken` is float32 [n], `items` is N, the number of items in the catalogue.
    """
    others = (others + math.log(items / others.shape[1])).masked_fill(had, -torch.inf)
    return torch.logsumexp(torch.cat([taken[:, None], others], 1), 1) - taken


def margin(taken: Tensor, others: Tensor, had: Tensor, width: float) -> Tensor:
    """Return the mean, over the others, of what each lacks to be `width` below the taken item, float32 [n].

    Arguments as `sampled_softmax`; 0 where the user has all of the others.
    """
    lacking = relu(others - taken[:, None] + width).masked_fill(had, 0.0)
    return lacking.sum(1) / (~had).sum(1).clamp(min=1)


def dependence(channels: Tensor) -> Tensor:
    """Return the mean distance correlation of pairs of factors within a channel, in [0, 1], float32 scalar.

    Channels are float32 [factors, channels, items, width], of at least two factors and two items.

    Source: Szekely, Rizzo, Bakirov, Annals of Statistics 2007, eq. (2.10).
    """
    blocks = channels[:, :, :SAMPLED]
    squares = (blocks * blocks).sum(3)
    products = blocks @ blocks.transpose(2, 3)
    distances = (squares[..., None] + squares[..., None, :] - 2 * products).clamp(min=0).add(LEAST).sqrt()
    rows = distances.mean(3, keepdim=True)
    centred = distances - rows - rows.transpose(2, 3) + rows.mean(2, keepdim=True)
    spread = (centred * centred).mean((2, 3)).add(LEAST).sqrt()
    pairs = []
    for one, two in itertools.combinations(range(len(blocks)), 2):
        shared = (centred[one] * centred[two]).mean((1, 2)).clamp(min=0)
        pairs.append((shared / (spread[one] * spread[two]) + LEAST).sqrt())
    return torch.stack(pairs).mean()
