"""A trained model of the task `rating` as a module over tensors, and the tables that its inputs are made of.

Beside it, questions about (user, item) pairs in the ids of the data: who answers them, and what is new there.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from fedgraft.contracts.abilities.plain import PlainModel, Tensors, network_text
from fedgraft.contracts.encoder import Encoder
from fedgraft.domains.ratings.features import FRIENDS, TASTE, Known
from fedgraft.domains.ratings.pairs import Pairs, RatingModel
from fedgraft.domains.ratings.shards import Ids, RatingShard
from fedgraft.domains.tables.rows import places_of
from fedgraft.errors import InputError, unknown
from fedgraft.nn.propagate import Graph, GraphView
from fedgraft.wire.layouts import Array


def route_pairs(shards: Sequence[RatingShard], queries: Mapping[str, Array]) -> Ids:
    """The client of each pair, int64 [pairs]: by its column "client", else by item, by user, by size (see `Rating`)."""
    for column in ("user", "item"):
        if column not in queries:
            raise InputError(f"pairs need a column {column!r}; got {', '.join(queries) or 'none'}.")
    for column in {"user", "item", "client"} & queries.keys():
        missing = np.flatnonzero(pd.isna(queries[column]))
        if len(missing):
            raise InputError(f"pairs, row {missing[0] + 1}: {column!r} is empty ({len(missing)} such rows).")
    if "client" in queries:
        return np.array([_client(shards, value) for value in queries["client"]], dtype=np.int64)
    ratings = np.array([len(shard.rating) for shard in shards], dtype=np.float64)
    # In units of one rating: selling the item outweighs any number of ratings, which outweighs size.
    preference = np.tile(ratings / (ratings.sum() + 1.0), (len(queries["user"]), 1))
    for client, shard in enumerate(shards):
        counts = np.bincount(shard.user, minlength=len(shard.users))
        user = positions(shard.user_ids, queries["user"])
        preference[:, client] += np.where(user >= 0, counts[user], 0)
        preference[:, client] += (ratings.sum() + 1.0) * (positions(shard.item_ids, queries["item"]) >= 0)
    return np.asarray(preference.argmax(axis=1))


def with_newcomers(shard: RatingShard, user_ids: Array, item_ids: Array) -> tuple[RatingShard, Ids, Ids]:
    """The shard with users and items that it has not seen added, and the pairs' local indices in it, int64 [pairs]."""
    own_users, users, user = _extended(shard.user_ids, shard.users, user_ids)
    own_items, items, item = _extended(shard.item_ids, shard.items, item_ids)
    return replace(shard, user_ids=own_users, users=users, item_ids=own_items, items=items), user, item


def item_categories(shard: RatingShard) -> Ids:
    """int64 [items], the category of each: that of its last rating; the client's most frequent one without any."""
    most = int(np.bincount(shard.category).argmax())
    categories = np.full(len(shard.items), most, dtype=np.int64)
    categories[shard.item] = shard.category
    return categories


def positions(ids: Array, wanted: Array) -> Ids:
    """Return where each wanted id stands among `ids`, int64 [wanted], -1 for none; compared as text, as in files."""
    return places_of(_texts(ids), _texts(wanted))


def _extended(ids: Array, numbers: Ids, wanted: Array) -> tuple[Array, Ids, Ids]:
    """(ids with the wanted ones that are new, the numbers of all of them, the places of the wanted ones)."""
    new = np.unique(_texts(wanted)[positions(ids, wanted) < 0])
    together = np.concatenate([_texts(ids), new])
    more = int(numbers.max(initial=-1)) + 1 + np.arange(len(new))
    return together, np.concatenate([numbers, more]), positions(together, wanted)


def _texts(ids: Array) -> Array:
    # Whole numbers become floats where a table lacks some of them: 7.0 is user 7, as in the data (`Cells.codes`).
    values = (int(v) if isinstance(v, float) and v.is_integer() else v for v in ids.tolist())
    return np.array([str(value) for value in values], dtype=object)


def _client(shards: Sequence[RatingShard], value: object) -> int:
    names = [shard.name for shard in shards]
    if str(value) in names:
        return names.index(str(value))
    if str(value).isdigit() and int(str(value)) < len(shards):
        return int(str(value))
    raise unknown("client", value, [*names, f"0..{len(shards) - 1}"])


_USAGE: Final = """from model import Client, load

client = Client()
ratings = load()(*client.inputs([("a user", "an item")])).clamp(*client.scale)
"""
_USAGE_ALONE: Final = """from model import load

ratings = load()(x, edge_index, edge_attr, pairs, pair_attr, base)
"""
_OUTPUTS: Final = "ratings, float32 [pairs], not clipped to the scale."


class RatingReader(nn.Module):
    """From a client's graph and pairs of its nodes to ratings, float32 [pairs]."""

    def __init__(self, model: RatingModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, pairs: Tensor, pair_attr: Tensor, base: Tensor
    ) -> Tensor:
        """Return the ratings of `pairs`, int64 [2, pairs], of which `base` is what is known before."""
        source, target = edge_index
        order = torch.argsort(target * len(x) + source)
        source, target = source[order], target[order]
        degree = torch.bincount(target, minlength=len(x)).float()
        norm = (degree[source] * degree[target]).rsqrt()
        view = GraphView(Graph.listed(target, source, len(x)), x, edge_attr[order], norm)
        ratings: Tensor = self.model(Pairs(view, pairs[0], pairs[1], pair_attr, base, base))
        return ratings


class Client:
    """What the model reads of a client's own ratings and links, from client.safetensors and client.json."""

    def __init__(self, folder: Path = Path(__file__).parent) -> None:
        names = json.loads((Path(folder) / "client.json").read_text(encoding="utf-8"))
        self.users, self.items = ({name: k for k, name in enumerate(names[side])} for side in ("users", "items"))
        self.tables = load_file(Path(folder) / "client.safetensors")
        self.scale = tuple(self.tables["scale"].tolist())

    def inputs(self, asked: Sequence[tuple[str, str]]) -> tuple[Tensor, ...]:
        """Return the arguments of the model's `forward` for pairs [(user, item), ...] of names in client.json."""
        table = self.tables
        user = torch.tensor([self.users[user] for user, _ in asked])
        item = torch.tensor([self.items[item] for _, item in asked])
        base = table["mean"] + table["user_bias"][user] + table["item_bias"][item]
        attr = table["user_attr"][user] + table["item_attr"][item]
        attr[:, TASTE] = table["taste"][user, table["category"][item]]
        key = user * len(self.items) + item
        place = torch.searchsorted(table["friend_pairs"], key)
        found = table["friend_pairs"][place] == key
        attr[:, FRIENDS] = table["friend_attr"][place] * found.unsqueeze(1)
        pairs = torch.stack([user, item + len(self.users)])
        return table["x"], table["edge_index"], table["edge_attr"], pairs, attr, base


def plain_ratings(
    model: RatingModel,
    encoder: Encoder,
    widths: tuple[int, int],
    shard: RatingShard | None = None,
    client: Tensors | None = None,
) -> PlainModel:
    """Return the trained model of one client, or of all where no shard is given.

    `widths` are columns of the features of nodes, and of edges; `client` are `client_tables` of that client.
    """
    alone = PlainModel(
        RatingReader(model), _inputs(model, *widths), _USAGE_ALONE, _OUTPUTS, network=network_text(encoder, widths[0])
    )
    if shard is None:
        return alone
    names = {"users": [*map(str, shard.user_ids)], "items": [*map(str, shard.item_ids)]}
    return replace(alone, usage=_USAGE, client=client or {}, names=names, readers=[Client])


def client_tables(known: Known, view: GraphView, described: Callable[[Ids, Ids, Ids], Pairs]) -> Tensors:
    """Return all that a client's inputs are made of; `Client` puts them together.

    `known` are its training ratings, `view` is its graph, and `described` gives pairs of local users, local items and
    the items' categories.
    """
    users, items, category = np.arange(known.users), np.arange(known.items), item_categories(known.shard)
    nobody, first = np.zeros_like(users), np.zeros_like(items)
    user_attr = described(users, nobody, category[nobody]).features
    item_attr = described(first, items, category).features - user_attr[:1]
    kinds = np.arange(known.shard.n_categories)
    every = np.repeat(users, len(kinds)), np.zeros(len(users) * len(kinds), np.int64), np.tile(kinds, len(users))
    taste = described(*every).features[:, TASTE].reshape(len(users), len(kinds), -1)
    rated = known.rated.T
    user, item = (known.trusts @ rated + known.trusted_by @ rated).nonzero()
    order = np.lexsort((item, user))
    user, item = user[order].astype(np.int64), item[order].astype(np.int64)
    friends = described(user, item, category[item]).features[:, FRIENDS]
    for table in (user_attr, item_attr):
        table[:, TASTE] = table[:, FRIENDS] = 0.0
    present, (mean, user_bias, item_bias) = view.norm > 0, known.biases
    behind = torch.tensor([len(users) * len(items)])  # so that whoever looks for a pair always finds a place
    return {
        "x": view.nodes,
        "edge_index": torch.stack([view.graph.columns, view.graph.rows])[:, present],
        "edge_attr": view.edges[present],
        "scale": torch.tensor(known.shard.scale),
        "mean": torch.tensor(mean, dtype=torch.float32),
        "user_bias": torch.from_numpy(user_bias).float(),
        "item_bias": torch.from_numpy(item_bias).float(),
        "user_attr": user_attr,
        "item_attr": item_attr,
        "category": torch.from_numpy(category),
        "taste": taste,
        "friend_pairs": torch.cat([torch.from_numpy(user * len(items) + item), behind]),
        "friend_attr": torch.cat([friends, friends.new_zeros(1, friends.shape[1])]),
    }


def _inputs(model: RatingModel, node_width: int, edge_width: int) -> str:
    return (
        f"- `x`: float32 [nodes, {node_width}], features of a client's users and then its items.\n"
        "- `edge_index`: int64 [2, edges], source over target: training ratings and trust links, both ways.\n"
        f"- `edge_attr`: float32 [edges, {edge_width}], transition probabilities p of random walks: 2 sqrt(p) of one "
        "step, 4 sqrt(p) of more, there and back; the rating less its biases; 1 for a trust link.\n"
        "- `pairs`: int64 [2, pairs], nodes: users over items.\n"
        f"- `pair_attr`: float32 [pairs, {model.pair.in_features}], features of the pairs.\n"
        "- `base`: float32 [pairs], the client's mean plus both biases.\n\n"
        "`Client` makes them of a client's own users and items from client.safetensors and client.json; both tell of "
        "its ratings, so keep them where these are. They are written where the export names a client. Whom the client "
        "does not know, and ratings that came later, need fedgraft: `fedgraft predict`.\n"
    )
