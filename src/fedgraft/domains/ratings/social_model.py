"""Tables of users and items and attention over a client's graph: the model of published social recommenders.

Rows of the tables are the ids that all clients agree on (`RatingShard.users`, `RatingShard.items`). Who is in no table
has the row zero. A rating is the client's mean plus the inner product of both ends' states.
"""

import numpy as np
import torch
from torch import Tensor, nn

from fedgraft.domains.ratings.pairs import Pairs
from fedgraft.domains.ratings.shards import Ids, RatingShard
from fedgraft.nn.layers import linear, normal
from fedgraft.nn.propagate import Graph, GraphView, end_sums, spmm

SLOPE, SCORE_LIMIT = 0.2, 8.0
"""Of leaky_relu below 0 (GAT, Velickovic et al., ICLR 2018), and of scores, whose exponents then fit float32."""
SPREAD = 0.1
"""Mean of the rows at the start, and their standard deviation: a common direction, which becomes biases."""
GRADES = 5
"""Equal steps of the scale that pseudo-labels are rounded to; the papers' data have five grades."""
_NEW_USER, _NEW_ITEM = -1, -2


class SocialModel(nn.Module):
    """Mean + <state of the user, state of the item>; tables of `users` and `items` rows of `width` numbers, each >= 1.

    Without relations, a state is the node's row plus attention over rows of those it is joined to by ratings. With
    relations, an item's state is its row, and a user's the sum of three, weighted by the softmax of c . [f || r]: what
    attention makes of its friends, of its items, and its own row, each with a vector r of its own (FeSoG). All is drawn
    from `g`.
    """

    def __init__(self, users: int, items: int, width: int, relations: bool, g: torch.Generator) -> None:
        super().__init__()
        self.embeddings = Tables(users, items, width, g)
        self.attention = Attention(width, g)
        self.relations = Relations(width, g) if relations else None

    def encoder(self, view: GraphView) -> Tensor:
        """Return states of all nodes [nodes, width]; `view.nodes` are rows as `node_rows` gives them."""
        rows, users = self.embeddings(view.nodes)
        present, trust = view.norm > 0, view.edges[:, -1] > 0
        from_items = self.attention(rows, view.graph, present & ~trust)
        if self.relations is None:
            state: Tensor = rows + from_items
            return state
        return torch.cat([self.relations(rows, from_items, view.graph, present & trust)[:users], rows[users:]])

    def forward(self, pairs: Pairs, place: Tensor | None = None, nodes: Tensor | None = None) -> Tensor:
        """Predicted ratings [n] of all pairs, or of those at `place`; `nodes` are states already computed."""
        user, item, base = pairs.user, pairs.item, pairs.base
        if place is not None:
            user, item, base = user[place], item[place], base[place]
        nodes = self.encoder(pairs.view) if nodes is None else nodes
        return base + (nodes[user] * nodes[item]).sum(1)


class Tables(nn.Module):
    """One row for each user and each item of all clients."""

    def __init__(self, users: int, items: int, width: int, g: torch.Generator) -> None:
        super().__init__()
        self.users, self.items = (
            nn.Parameter(SPREAD + SPREAD * torch.randn(n, width, generator=g)) for n in (users, items)
        )

    def forward(self, ids: Tensor) -> tuple[Tensor, int]:
        """Return rows [nodes, width] of ids as `node_rows` gives them, and how many of the nodes are users."""
        count = int(((ids == _NEW_USER) | ((ids >= 0) & (ids < len(self.users)))).sum())
        users, items = ids[:count], ids[count:] - len(self.users)
        return torch.cat([_rows(self.users, users), _rows(self.items, items)]), count


class Attention(nn.Module):
    """One head of graph attention: the mean of neighbours' mapped rows, weighted by scores of both ends."""

    def __init__(self, width: int, g: torch.Generator) -> None:
        super().__init__()
        self.linear = linear(width, width, g, bias=False)
        self.receiver, self.sender = normal(width, std=0.1, g=g), normal(width, std=0.1, g=g)

    def forward(self, rows: Tensor, graph: Graph, present: Tensor) -> Tensor:
        """Return [nodes, width] over edges that are `present`, bool [edges]; zero for nodes without any."""
        mapped = self.linear(rows)
        ends = end_sums((mapped @ self.receiver)[None], (mapped @ self.sender)[None], graph)[0]
        weights = nn.functional.leaky_relu(ends, SLOPE).clamp(-SCORE_LIMIT, SCORE_LIMIT).exp() * present
        total = spmm(weights, mapped.new_ones(len(rows), 1), graph)
        return spmm(weights, mapped, graph) / (total + (total == 0))


class Relations(nn.Module):
    """What weighs friends, items and the own row."""

    def __init__(self, width: int, g: torch.Generator) -> None:
        super().__init__()
        self.friends = Attention(width, g)
        self.vectors = normal(3, width, std=0.1, g=g)
        self.score = normal(2, width, std=0.1, g=g)

    def forward(self, rows: Tensor, from_items: Tensor, graph: Graph, trust: Tensor) -> Tensor:
        """Return [nodes, width]; a relation without neighbours has no weight."""
        parts = torch.stack([self.friends(rows, graph, trust), from_items, rows])
        scores = parts @ self.score[0] + (self.vectors @ self.score[1])[:, None]
        absent = (parts == 0).all(2)
        absent[2] = False
        weights = torch.softmax(scores.masked_fill(absent, -1e9), 0)
        return (weights[:, :, None] * parts).sum(0)


def node_rows(shard: RatingShard, users: int, items: int, known: tuple[int, int]) -> Tensor:
    """Return the row of each of a client's users and then items, int64 [nodes]: items' behind all `users`.

    The tables have `users` and `items` rows. `known` is how many of the client's users, and of its items, took part in
    the run; others have no row.
    """
    own_users = np.where((np.arange(len(shard.users)) < known[0]) & (shard.users < users), shard.users, _NEW_USER)
    had = (np.arange(len(shard.items)) < known[1]) & (shard.items < items)
    return torch.from_numpy(np.concatenate([own_users, np.where(had, shard.items + users, _NEW_ITEM)]))


def numbered(shard: RatingShard) -> list[str]:
    """Return a client's users and items, each with its row of the tables."""
    rows = ((shard.users, shard.user_ids), (shard.items, shard.item_ids))
    return [f"{row} {name}" for numbers, names in rows for row, name in zip(numbers, names, strict=True)]


def pseudo_items(shard: RatingShard, rows: Ids, items: int, most: int, g: np.random.Generator) -> Tensor:
    """Return items that a client's users have not rated, int64 [users, most], of the whole table.

    They are drawn once: items that change from round to round would tell which are real.
    """
    rated = np.unique(shard.user[rows] * items + shard.items[shard.item[rows]])
    drawn = g.integers(0, items, (len(shard.users), most))
    keys = np.arange(len(shard.users))[:, None] * items + drawn
    for _ in range(8):  # who has rated nearly all may keep one that it has rated
        again = np.isin(keys, rated)
        if not again.any():
            break
        drawn[again] = g.integers(0, items, int(again.sum()))
        keys = np.arange(len(shard.users))[:, None] * items + drawn
    return torch.from_numpy(drawn)


def training_losses(
    model: SocialModel,
    pairs: Pairs,
    place: Tensor,
    nodes: Tensor | None,
    ridge: float,
    pseudo: Tensor | None,
    scale: tuple[float, float],
) -> Tensor:
    """Return what training minimises for each rating, float32 [n]: squared errors, a penalty, and pseudo-labels'.

    A pseudo-label is the model's own prediction, clipped to the scale and rounded to a grade. The mean of the losses is
    that over real ratings and pseudo-labelled items of the same users.

    `place` is int64 [n], which of the pairs the ratings are. `nodes` are states of all nodes; None to compute them.
    `ridge`, >= 0, is the penalty of the squared states of both ends. `pseudo` is int64 [users, k], as `pseudo_items`
    gives them.
    """
    nodes = model.encoder(pairs.view) if nodes is None else nodes
    user, item = nodes[pairs.user[place]], nodes[pairs.item[place]]
    error = pairs.base[place] + (user * item).sum(1) - pairs.rating[place]
    losses: Tensor = error**2 + ridge * (user**2 + item**2).sum(1)
    if pseudo is None:
        return losses
    users = torch.unique(pairs.user[place])
    items = model.embeddings.items[pseudo[users.cpu()].to(users.device)]
    predicted = pairs.base[0] + (nodes[users][:, None, :] * items).sum(2)
    low, step = scale[0], (scale[1] - scale[0]) / (GRADES - 1)
    label = low + ((predicted.detach().clamp(*scale) - low) / step).round() * step
    count = len(losses)
    return (losses * count + ((predicted - label) ** 2).sum()) / (count + predicted.numel())


def _rows(table: Tensor, ids: Tensor) -> Tensor:
    return table.index_select(0, ids.clamp(min=0)) * (ids >= 0)[:, None]
