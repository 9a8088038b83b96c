"""How much the factors of a ranker, which are to be independent, hang together."""

import itertools

import torch
from torch import Tensor

SAMPLED = 128
"""Most items that the independence of factors is told from: the cost grows with the square."""
LEAST = 1e-8
"""What keeps the gradient of a root finite at 0."""


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
