"""The ranker: items of several modalities, and users that are what they have taken."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, leaky_relu

from fedgraft.nn import flops
from fedgraft.nn.layers import linear, normal

START = 0.1
"""Standard deviation of the items' vectors at the start: scores are near 0, and no item is preferred."""
CHUNK = 256
"""Users whose scores for all items are made at a time, which bounds what is held between."""


class Items(NamedTuple):
    """Items as the ranker sees them, with a bias, float32 [items].

    `channels` is float32 [factors, channels, items, width of a factor]. `attention` is float32 [factors, hidden,
    items], their part of the attention's first layer; None with one channel.
    """

    channels: Tensor
    attention: Tensor | None
    bias: Tensor

    def of(self, rows: Tensor) -> "Items":
        """Return some of the items, by their rows, int64 [n]."""
        attention = None if self.attention is None else self.attention.index_select(2, rows)
        return Items(self.channels.index_select(2, rows), attention, self.bias[rows])


class Ranker(nn.Module):
    """Scores items for users; a user is the sum of what it has taken, divided by a power of how many that is.

    An item has a channel of its identity and one of each modality, a two-layer perceptron of its features with `hidden`
    units. Every channel is cut into factors, of which `width` is a multiple. For each factor, attention weighs the
    channels for the pair of user and item. `widths` are {modality: width of its features}. If `tied`, the vectors that
    make users are those of the items' identity. `dropout`, in [0, 1), is the share of a user's vector and of the
    perceptrons' hidden states dropped in training. The parameters are drawn from `g`.
    """

    def __init__(
        self,
        items: int,
        widths: Mapping[str, int],
        width: int,
        factors: int,
        hidden: int,
        attention: int,
        tied: bool,
        dropout: float,
        g: torch.Generator,
    ) -> None:
        super().__init__()
        self.factors, self.dropout = factors, dropout
        self.identity = normal(items, width, std=START, g=g)
        self.history = None if tied else normal(items, width, std=START, g=g)
        self.bias = nn.Parameter(torch.zeros(items))
        self.modalities = nn.ModuleDict({name: _Modality(of, hidden, width, g) for name, of in widths.items()})
        self.attention = _Attention(1 + len(widths), width // factors, attention, g) if widths else None

    @property
    def taken(self) -> Tensor:
        """Vectors that users are summed of, float32 [items, width]."""
        return self.identity if self.history is None else self.history

    def items(self, features: Mapping[str, Tensor], seed: int) -> Items:
        """Return all items, from their features {modality: float32 [items, width]}; `seed` is the dropout's."""
        channels = [self.identity]
        for number, (name, modality) in enumerate(self.modalities.items(), start=1):
            channels.append(modality(features[name], partial(self._dropped, seed=seed, number=number)))
        cut = torch.stack([self._cut(channel) for channel in channels], 1)
        return Items(cut, self.attention.items(cut) if self.attention is not None else None, self.bias)

    def users(self, sums: Tensor, counts: Tensor, power: float, seed: int) -> Tensor:
        """Return users, float32 [factors, users, width of a factor].

        `sums` is float32 [users, width], of the rows of `taken` of what each has taken, and is divided by a power of
        `counts`, float32 [users]. The seed is the dropout's.
        """
        return self._cut(self._dropped(sums / counts.clamp(min=1.0).pow(power)[:, None], seed, 0))

    def crossed(self, users: Tensor, items: Items) -> Tensor:
        """Return the scores of all pairs, float32 [users, items]."""
        _count(users.numel() * items.channels.shape[1] * items.channels.shape[2])
        products = [[user @ its.t() for its in item] for user, item in zip(users, items.channels, strict=True)]
        parts = None if items.attention is None else items.attention[:, :, None]
        return self._summed(products, users, parts) + items.bias

    def paired(self, users: Tensor, items: Items) -> Tensor:
        """Return the score of each user for the item of the same row, float32 [users]."""
        _count(items.channels.numel())
        products = [
            [(user * its).sum(1, keepdim=True) for its in item]
            for user, item in zip(users, items.channels, strict=True)
        ]
        parts = None if items.attention is None else items.attention[..., None]
        return self._summed(products, users, parts)[:, 0] + items.bias

    def ranking(self, users: Tensor, items: Items) -> Tensor:
        """Return the same as `crossed`, float32 [users, items], made part by part; no gradient."""
        with torch.no_grad():
            return torch.cat([self.crossed(part, items) for part in torch.split(users, CHUNK, 1)])

    def _summed(self, products: Sequence[Sequence[Tensor]], users: Tensor, parts: Tensor | None) -> Tensor:
        """Scores summed over factors, from products [users, items] by factor and channel and the items' attention."""
        if self.attention is None or parts is None:
            return reduce(torch.add, (gelu(product[0]) for product in products))
        own, outer = self.attention.users(users)[..., None], self.attention.outer
        each = zip(products, own, parts, strict=True)
        return reduce(torch.add, (attended(*factor, outer.weight, outer.bias) for factor in each))

    def _cut(self, vectors: Tensor) -> Tensor:
        """Vectors [n, width] as float32 [factors, n, width of a factor]."""
        return vectors.view(len(vectors), self.factors, -1).transpose(0, 1)

    def _dropped(self, states: Tensor, seed: int, number: int) -> Tensor:
        """States in training, some of them dropped; each number draws other ones from a seed."""
        if not self.training or self.dropout == 0:
            return states
        g = torch.Generator(states.device).manual_seed(seed * 64 + number)
        kept = torch.rand(states.shape, generator=g, device=states.device) >= self.dropout
        return states * kept / (1 - self.dropout)


class _Modality(nn.Module):
    """Two layers from features to a channel."""

    def __init__(self, features: int, hidden: int, width: int, g: torch.Generator) -> None:
        super().__init__()
        self.inner, self.outer = linear(features, hidden, g), linear(hidden, width, g)

    def forward(self, features: Tensor, dropped: Callable[[Tensor], Tensor]) -> Tensor:
        """Return float32 [items, width]; `dropped` drops some of the hidden states."""
        return leaky_relu(self.outer(dropped(leaky_relu(self.inner(features)))))


class _Attention(nn.Module):
    """Two layers from a user and an item's channels to a logit per channel, the same for all factors."""

    def __init__(self, channels: int, width: int, hidden: int, g: torch.Generator) -> None:
        super().__init__()
        self.inner, self.outer = linear((1 + channels) * width, hidden, g), linear(hidden, channels, g)

    def users(self, users: Tensor) -> Tensor:
        """Return the users' part of the first layer with its bias, float32 [factors, hidden, users]."""
        weight = self.inner.weight[:, : users.shape[2]]
        _count(users.numel() * len(weight))
        return weight @ users.transpose(1, 2) + self.inner.bias[:, None]

    def items(self, channels: Tensor) -> Tensor:
        """Return the items' part of the first layer, float32 [factors, hidden, items]."""
        weight = self.inner.weight[:, channels.shape[3] :]
        _count(channels.numel() * len(weight))
        return weight @ channels.transpose(1, 2).flatten(2).transpose(1, 2)


def _count(multiply_adds: int) -> None:
    """Note a product, and the two of its gradients where these are made."""
    flops.count(multiply_adds * (3 if torch.is_grad_enabled() else 1))


# --- ranker scores ----------------------------------------------------------------------------------------------------


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


# --- losses -----------------------------------------------------------------------------------------------------------

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
