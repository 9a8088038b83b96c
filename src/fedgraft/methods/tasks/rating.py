"""Rating: predict what a user gives an item, from a client's own ratings and trust links."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from annotated_types import Ge
from torch import Tensor, nn

from fedgraft.contracts import (
    SCORED_SPLITS,
    Batch,
    EdgeEncoder,
    Indices,
    NetworkEncoder,
    NonNegativeFloat,
    NonNegativeInt,
    PlainModel,
    PooledTask,
    PositiveInt,
    PredictingTask,
    Proportion,
    Questions,
    Sums,
    Task,
    part,
    randomness,
)
from fedgraft.contracts.scores import root_mean_square
from fedgraft.domains.ratings import shared_user_statistics as users_elsewhere
from fedgraft.domains.ratings.features import NODE_WIDTH, PAIR_WIDTH, Known, pair_features
from fedgraft.domains.ratings.graph import RatingGraph, edge_width
from fedgraft.domains.ratings.pairs import Pairs, RatingData, RatingModel, encoder_of
from fedgraft.domains.ratings.rating_reader import (
    client_tables,
    item_categories,
    plain_ratings,
    route_pairs,
    with_newcomers,
)
from fedgraft.domains.ratings.shards import RatingShard, label_shares, merge_shards
from fedgraft.domains.ratings.shared_user_statistics import CODES, RemoteRatings
from fedgraft.domains.ratings.social_model import SocialModel, node_rows, numbered, pseudo_items, training_losses
from fedgraft.domains.ratings.telling_users import LABEL_BINS, SUMS, TellingUsers
from fedgraft.errors import InputError, require, require_one_of
from fedgraft.nn.layers import device_of
from fedgraft.nn.propagate import GraphView
from fedgraft.wire.layouts import Array, Arrays


@dataclass(frozen=True)
class Rating(
    Task[RatingShard, RatingData],
    PooledTask[RatingShard, RatingData],
    PredictingTask[RatingShard, RatingData],
):
    """Rating: predict what a user gives an item, from a client's own ratings and trust links.

    The prediction is the client's mean and biases plus what a network adds from features of the pair and, of both ends,
    the embeddings of a graph encoder. The network's last layer starts at zero, so training starts from the biases.

    Training ratings are cut into folds. Those of a fold are predicted from biases, features, transition probabilities
    and a graph that were made without the whole fold, so no rating sees itself at any order. Held-out ratings are
    predicted from all training ratings.

    With the part "embeddings" the model is another one, that of published social recommenders: tables of users and
    items with attention over ratings and, with the part "relations", over trust links
    (`fedgraft.domains.ratings.social_model`). Encoder, head, biases and features then play no part.

    Asked: a table `pairs` with columns "user", "item" and perhaps "client". One client's own tables: `data`, with the
    columns of the run's ratings; if it has links, `trust` with "user" and "trusts".

    Source: FedACS (Xu et al., IEEE TMC 2025), sec. III and VI: graph, transition probabilities, RMSE.
    Differs: the paper trains embeddings of nodes and says nothing about a rating that sees itself; here node and pair
        features are computed by each client, so that the message holds no table of users or items.

    Args:
        encoder: the graph encoder; the recipe's [model].
        folds: >= 2; more folds are nearer to leave-one-out and cost more preparation.
        hidden: width of the head, >= 1.
        walk: longest random walk of the edge features, >= 1.
        user_shrinkage: pseudo-ratings of bias 0 per user in the biases, >= 0.
        item_shrinkage: the same per item, >= 0.
        share: "nothing"; "users": each client tells, once, how its users rate there, and learns how they rate
            elsewhere, a byte each; "effects": two (`domains.ratings.shared_user_statistics`; charged as statistics).
            "sums": clients add up how users rate, so that the server learns no more than the sums
            (`domains.ratings.telling_users`); with [secure_sum].
        share_least: with "users" and "effects", fewest clients that must have a user for anything to be told of him,
            >= 2; with 2, of a user whom two have, each is told just what the other said. The server sees all anyway.
        centre: with "sums", where ratings are thought to lie on the scale, from 0 to 1, by what all know: heights above
            it are told, up to a quarter of the scale. 0.75 is four of five stars.
        embeddings: whether the model is made of tables; sharing methods that need them set it. Not with `share`.
        relations: whether that model sees trust links, and training pseudo-labels items; likewise.
        width: of a row of the tables, >= 1 (FeSoG: 8).
        ridge: penalty, in training, of the squared states of a rating's ends, with `embeddings`, >= 0.
        pseudo: items that are pseudo-labelled for each user, with `relations`, >= 0 (FeSoG: 10).
        users: rows of the table of users, >= 0; 0 = as the data have.
        items: likewise of items.
    """

    sums: ClassVar[tuple[str, ...]] = ("squared_error", "count")
    metric: ClassVar[str] = "rmse"
    better: ClassVar[str] = "lower"
    asks: ClassVar[tuple[str, ...]] = ("pairs",)
    profile: ClassVar[frozenset[str]] = frozenset(f"label_{k}" for k in range(LABEL_BINS))

    encoder: EdgeEncoder | NetworkEncoder
    folds: Annotated[int, Ge(2)] = 10
    hidden: PositiveInt = 32
    walk: PositiveInt = 2
    user_shrinkage: NonNegativeFloat = 9.0
    item_shrinkage: NonNegativeFloat = 2.0
    share: str = "nothing"
    share_least: Annotated[int, Ge(2)] = 3
    centre: Proportion = 0.75
    embeddings: bool = False
    relations: bool = False
    width: PositiveInt = 8
    ridge: NonNegativeFloat = 0.0
    pseudo: NonNegativeInt = 10
    users: NonNegativeInt = 0
    items: NonNegativeInt = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("Rating.share", self.share, ("nothing",) if self.embeddings else ("nothing", *CODES, SUMS))
        require(self.embeddings or not self.relations, "Rating.relations", "false without embeddings", self.relations)

    @part
    def telling(self) -> TellingUsers:
        """What clients tell of how their users rate."""
        options = self.share, self.share_least, self.centre, self.users
        return TellingUsers(self.user_shrinkage, self.item_shrinkage, *options)

    @property
    def offers(self) -> frozenset[str]:
        """Tables of users and items; trust links and pseudo-labels beside them. Nothing where statistics are shared."""
        return frozenset({"embeddings", "relations"} if self.share == "nothing" else ())

    def with_parts(self, parts: frozenset[str]) -> Self:
        """Return this task with tables, if these are needed."""
        relations = self.relations or "relations" in parts
        return replace(self, embeddings=relations or self.embeddings or "embeddings" in parts, relations=relations)

    def fitted(self, shards: Sequence[RatingShard]) -> Self:
        """With as many rows as there are users and items, if there are tables or, of users, sums."""
        if self.share == SUMS:
            users = max(int(shard.users.max(initial=-1)) + 1 for shard in shards)
            require(self.users == 0 or self.users >= users, "task.users", f"0 or >= {users}, of all users", self.users)
            return replace(self, users=self.users or users)
        if not self.embeddings:
            return self
        names = ("users", "items")
        ends = [max(int(getattr(shard, name).max(initial=-1)) + 1 for shard in shards) for name in names]
        for name, count in zip(names, ends, strict=True):
            require(getattr(self, name) in (0, count), f"task.{name}", f"{count}, as many as ids", getattr(self, name))
        return replace(self, users=ends[0], items=ends[1])

    def check_shard(self, shard: RatingShard) -> None:
        """One client has some of the rows of the tables."""
        for name, ids in zip(("users", "items"), (shard.users, shard.items), strict=True):
            rows, needed = getattr(self, name), int(ids.max(initial=-1)) + 1
            sound = rows >= needed or not (self.embeddings or (self.share == SUMS and name == "users"))
            require(sound, f"task.{name}", f">= {needed}, as these data have ids up to {needed - 1}", rows)

    @property
    def update_tells(self) -> frozenset[str]:
        """Of tables also which users it has: their rows are not zero."""
        return frozenset({"update", "users"} if self.embeddings else {"update"})

    def prepare(self, shard: RatingShard, shared: Arrays) -> RatingData:
        """Biases, features and graphs of every fold and of the whole training set."""
        rows, graph = shard.rows("train"), RatingGraph(shard, self.walk)
        elsewhere = self.telling.elsewhere(shard, shared)
        folds = min(self.folds, len(rows))
        # The folds are the client's own business; a fixed seed keeps them the same after a resume.
        fold = randomness.generator(0, "folds", client=len(rows)).permutation(len(rows)) % max(1, folds)
        place, parts = np.empty(len(rows), dtype=np.int64), []
        for number in range(folds):
            inside = np.flatnonzero(fold == number)
            place[inside] = np.arange(len(inside))
            known = self.telling.known(shard, rows[fold != number])
            view = self._view(known, graph, elsewhere)
            parts.append(self._pairs(known, view, rows[inside], elsewhere))
        known = self.telling.known(shard, rows)
        view = self._view(known, graph, elsewhere)
        held_out = {split: self._pairs(known, view, shard.rows(split), elsewhere) for split in SCORED_SPLITS}
        shares = label_shares(shard, rows, LABEL_BINS)
        pseudo = None
        if self.relations and self.pseudo and self.items:
            g = randomness.generator(0, "pseudo-items", client=len(rows))
            pseudo = pseudo_items(shard, rows, self.items, self.pseudo, g)
        return RatingData(parts, fold, place, held_out, shares, shard.scale, pseudo)

    def examples(self, data: RatingData) -> int:
        """Return how many training ratings the client has."""
        return len(data.fold)

    def describe(self, data: RatingData) -> dict[str, float]:
        """Shares of training ratings in equal parts of the scale."""
        return {f"label_{k}": share for k, share in enumerate(data.label_shares)}

    def survey(self, shard: RatingShard) -> dict[str, float]:
        """Return the number of training ratings, and what `describe` tells."""
        rows = shard.rows("train")
        labels = {f"label_{k}": share for k, share in enumerate(label_shares(shard, rows, LABEL_BINS))}
        return {"examples": float(len(rows)), **labels}

    def pooled(self, shards: Sequence[RatingShard]) -> RatingShard:
        """One client with everybody's ratings and links."""
        return merge_shards(shards)

    def model(self, g: torch.Generator, variant: Hashable = None) -> nn.Module:
        """Return encoder and head, or tables and attention."""
        if self.embeddings:
            rows = max(1, self.users), max(1, self.items)
            return SocialModel(*rows, self.width, self.relations, g)
        pair_width = PAIR_WIDTH + (self.share != "nothing") * users_elsewhere.PAIR_COLUMNS
        return RatingModel(*encoder_of(self.encoder, *self._widths, g), pair_width, self.hidden, g)

    @property
    def _widths(self) -> tuple[int, int]:
        """Columns of the features of nodes, and of edges."""
        return NODE_WIDTH + (self.share != "nothing") * users_elsewhere.NODE_COLUMNS, edge_width(self.walk)

    def blocks(self, data: RatingData) -> Sequence[Indices]:
        """The folds, int64 [n] each: only examples of one fold are seen from the same graph."""
        return [np.flatnonzero(data.fold == number) for number in range(len(data.folds))]

    def encode(self, model: nn.Module, data: RatingData, block: Indices) -> Tensor:
        """Embeddings of all nodes, float32 [nodes, width], from the graph that lacks the block's fold."""
        embeddings: Tensor = model.encoder(self._fold(model, data, block).view)  # type: ignore[operator]
        return embeddings

    def loss(self, model: nn.Module, data: RatingData, draw: Batch, encoded: Tensor | None) -> Tensor:
        """Return the squared error of each rating of the draw, float32 [ratings]; of tables in training also others."""
        pairs = self._fold(model, data, draw.examples)
        place = torch.from_numpy(data.place[draw.examples]).to(pairs.user.device)
        if isinstance(model, SocialModel) and model.training:
            return training_losses(model, pairs, place, encoded, self.ridge, data.pseudo, data.scale)
        predicted: Tensor = model(pairs, place, encoded)
        return (predicted - pairs.rating[place]) ** 2

    def _fold(self, model: nn.Module, data: RatingData, examples: Indices) -> Pairs:
        return data.on(device_of(model), str(data.fold[examples[0]]))

    def evaluate(self, model: nn.Module, data: RatingData) -> dict[str, Sums]:
        """Squared error and count, predictions clipped to the scale; both splits are seen from the same graph."""
        sums, nodes = {}, None
        for split in data.held_out:
            pairs = data.on(device_of(model), split)
            nodes = model.encoder(pairs.view) if nodes is None else nodes  # type: ignore[operator]
            error = (model(pairs, nodes=nodes).clamp(*data.scale) - pairs.rating).double()
            sums[split] = {"squared_error": float((error**2).sum()), "count": float(len(error))}
        return sums

    def score(self, sums: Sums) -> float:
        """Return the RMSE; nan without ratings."""
        return root_mean_square(sums.get("squared_error", 0.0), sums.get("count", 0.0))

    def questions(self, shards: Sequence[RatingShard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
        """The client that sells the item; of several or none, that with most of the user's ratings; else the largest.

        A column "client" with names or indices decides by itself.
        """
        columns = {str(name): column.to_numpy() for name, column in tables["pairs"].items()}
        client = route_pairs(shards, columns)
        questions = {}
        for number in np.unique(client).tolist():
            rows = np.flatnonzero(client == number)
            questions[number] = Questions(rows, {name: values[rows] for name, values in columns.items()})
        return questions

    def plain(self, model: nn.Module, shard: RatingShard | None, shared: Arrays) -> PlainModel:
        """The encoder and the head, and a client's graph and features of its pairs."""
        sound = isinstance(model, RatingModel)
        require(sound, "task.embeddings", "false for a model that is exported; a sharing method may need it", True)
        assert isinstance(model, RatingModel), "just looked at"
        if shard is None:
            return plain_ratings(model, self.encoder, self._widths)
        known, elsewhere = self.telling.known(shard, shard.rows("train")), self.telling.elsewhere(shard, shared)
        view = self._view(known, RatingGraph(shard, self.walk), elsewhere)
        described = partial(self._describe_pairs, known, view, elsewhere=elsewhere)
        tables = client_tables(known, view, described)
        return plain_ratings(model, self.encoder, self._widths, shard, tables)

    def vocabulary(self, shard: RatingShard) -> Sequence[str]:
        """Users and items with their rows of the tables, where the model has tables."""
        return numbered(shard) if self.embeddings else ()

    def predict(
        self, model: nn.Module, shard: RatingShard, remembered: Mapping[str, Any], asked: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Ratings, float64 [pairs], of pairs of original ids, and what they rest on: whether either end is new here."""
        if self.embeddings and "shared" not in remembered:
            raise InputError("A model with embeddings has rows for users and items of its run alone; --data fits none.")
        had = len(shard.users), len(shard.items)
        elsewhere = self.telling.elsewhere(shard, remembered.get("shared", {}))
        shard, user, item = with_newcomers(shard, asked["user"], asked["item"])
        rows = shard.rows("train")
        known = self.telling.known(shard, rows)
        elsewhere = None if elsewhere is None else elsewhere.padded(known.users)
        view = self._view(known, RatingGraph(shard, self.walk), elsewhere, had)
        pairs = self._describe_pairs(known, view, user, item, item_categories(shard)[item], elsewhere)
        with torch.no_grad():
            predicted = model(pairs.to(device_of(model))).clamp(*shard.scale).cpu().numpy()
        new_user, new_item = known.by_user.ratings[user] == 0, known.by_item.ratings[item] == 0
        basis = np.select(
            [new_user & new_item, new_user, new_item],
            ["user and item new to the client", "user new to the client", "item new to the client"],
            "known user and item",
        )
        return {"rating": predicted.astype(np.float64), "basis": basis}

    def _view(
        self, known: Known, graph: RatingGraph, elsewhere: RemoteRatings | None, had: tuple[int, int] | None = None
    ) -> GraphView:
        """The graph of the known ratings; `had` is how many users and items have rows in the tables, all by default."""
        view = graph.view(known)
        if self.embeddings:
            rows = node_rows(known.shard, self.users, self.items, had or (known.users, known.items))
            return replace(view, nodes=rows)
        if elsewhere is None:
            return view
        return replace(view, nodes=torch.cat([view.nodes, torch.from_numpy(elsewhere.node_columns(known))], 1))

    def _pairs(self, known: Known, view: GraphView, rows: Indices, elsewhere: RemoteRatings | None) -> Pairs:
        """The pairs of some of the client's ratings."""
        shard = known.shard
        pairs = self._describe_pairs(known, view, shard.user[rows], shard.item[rows], shard.category[rows], elsewhere)
        return replace(pairs, rating=torch.from_numpy(shard.rating[rows]))

    def _describe_pairs(
        self,
        known: Known,
        view: GraphView,
        user: Indices,
        item: Indices,
        category: Indices,
        elsewhere: RemoteRatings | None,
    ) -> Pairs:
        if self.embeddings:
            features, base = np.zeros((len(user), 0), np.float32), np.full(len(user), known.biases[0])
        else:
            features, base = pair_features(known, user, item, category), known.base(user, item)
        if elsewhere is not None:
            features = np.concatenate([features, elsewhere.pair_columns(known, user)], axis=1)
        return Pairs(
            view=view,
            user=torch.from_numpy(user),
            item=torch.from_numpy(item + known.users),
            features=torch.from_numpy(features),
            base=torch.from_numpy(base.astype(np.float32)),
            rating=torch.full((len(user),), torch.nan),
        )
