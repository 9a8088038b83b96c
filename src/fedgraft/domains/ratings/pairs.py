"""Pairs of users and items as a client's model sees them, and the network that predicts their ratings from features."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from fedgraft.contracts import EdgeEncoder, Indices, NetworkEncoder
from fedgraft.errors import InputError
from fedgraft.nn.layers import linear
from fedgraft.nn.propagate import GraphView
from fedgraft.nn.whole_networks import ViewNetwork


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs to predict, with the graph they are predicted from.

    Args:
        view: the graph; it holds none of these pairs' ratings.
        user: int64 [n], the user's node; item: int64 [n], the item's node.
        features: float32 [n, pair width].
        base: float32 [n], the prediction that biases make, or a mean.
        rating: float32 [n], what is to be predicted; nan where unknown.
    """

    view: GraphView
    user: Tensor
    item: Tensor
    features: Tensor
    base: Tensor
    rating: Tensor

    def to(self, device: torch.device) -> "Pairs":
        """Return the data on another device."""
        return Pairs(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


class RatingModel(nn.Module):
    """Base + head(features of the pair, embeddings of both ends); the encoder may have none to give."""

    def __init__(self, encoder: nn.Module, width: int, pair_width: int, hidden: int, g: torch.Generator) -> None:
        super().__init__()
        self.encoder = encoder
        self.pair = linear(pair_width, hidden, g)
        self.ends = linear(2 * width, hidden, g, bias=False) if width else None
        self.inner = linear(hidden, hidden, g)
        self.out = linear(hidden, 1, g)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, pairs: Pairs, place: Tensor | None = None, nodes: Tensor | None = None) -> Tensor:
        """Predicted ratings [n] of all pairs, or of those at `place`; `nodes` are embeddings already computed."""
        user, item, features, base = pairs.user, pairs.item, pairs.features, pairs.base
        if place is not None:
            user, item, features, base = user[place], item[place], features[place], base[place]
        state = self.pair(features)
        if self.ends is not None:
            nodes = self.encoder(pairs.view) if nodes is None else nodes
            state = state + self.ends(torch.cat([nodes[user], nodes[item]], 1))
        state = torch.relu(self.inner(torch.relu(state)))
        predicted: Tensor = base + self.out(state)[:, 0]
        return predicted


def encoder_of(
    encoder: EdgeEncoder | NetworkEncoder, node_width: int, edge_width: int, g: torch.Generator
) -> tuple[nn.Module, int]:
    """Return what makes embeddings of a graph's nodes, from a `GraphView`, and their width; drawn from `g`."""
    if isinstance(encoder, EdgeEncoder):
        return encoder.build(node_width, edge_width, g), encoder.width
    network = encoder.network(node_width, g, edge_width)
    if network.pools:
        raise InputError("[model] gives a state for each graph; task 'rating' needs [nodes, width] of a network.")
    return ViewNetwork(network), network.width


@dataclass(frozen=True, eq=False)
class RatingData:
    """A client's own data, ready to train on.

    Args:
        folds: training pairs, each seen from a graph that lacks its whole fold.
        fold: int64 [examples], the fold of each training example; place: int64 [examples], its row there.
        held_out: {"validation": pairs, "test": pairs}, seen from the graph of all training ratings.
        label_shares: shares of training ratings in equal parts of the scale.
        scale: lowest and highest rating.
        pseudo: int64 [users, k], items to pseudo-label for each user; None where there are none.
    """

    folds: list[Pairs]
    fold: Indices
    place: Indices
    held_out: dict[str, Pairs]
    label_shares: tuple[float, ...]
    scale: tuple[float, float]
    pseudo: Tensor | None = None
    moved: dict[tuple[str, str], Pairs] = field(default_factory=dict)

    def on(self, device: torch.device, name: str) -> Pairs:
        """A fold (by number) or a split (by name) on a device; copied there once."""
        pairs = self.folds[int(name)] if name.isdigit() else self.held_out[name]
        if device.type == "cpu":
            return pairs
        if (str(device), name) not in self.moved:
            self.moved[str(device), name] = pairs.to(device)
        return self.moved[str(device), name]
