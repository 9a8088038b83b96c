"""Ranking: tell which items a user will take next, from what it has taken and from what is known of the items."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fedgraft.contracts import SCORED_SPLITS, Batch, Chance, Loss, Losses, Questions, RankingObjective, Sums, Task
from fedgraft.contracts.abilities import PooledTask, PredictingTask
from fedgraft.contracts.data import telling
from fedgraft.contracts.ranges import NonNegativeFloat, PositiveInt, Proportion
from fedgraft.contracts.runtime import fingerprint
from fedgraft.domains.ranking.metrics import score_users
from fedgraft.domains.ranking.ranker import Ranker, dependence
from fedgraft.domains.ranking.ranker_data import RankingData, asked_users, best_items, lists_of, tables_of
from fedgraft.domains.ranking.shards import ItemLists, RankingShard, merge_shards
from fedgraft.errors import InputError, require
from fedgraft.methods.losses.sampled_softmax import SampledSoftmax
from fedgraft.wire.layouts import Array, Arrays

SCORED = 1 << 22
"""Most scores that are held at a time while a model is scored: 16 MiB."""


@dataclass(frozen=True)
class Ranking(
    Task[RankingShard, RankingData],
    PooledTask[RankingShard, RankingData],
    PredictingTask[RankingShard, RankingData],
):
    """Ranking: tell which items a user will take next, from what it has taken and from what is known of the items.

    An item has a vector of its identity and one made of each modality that the data have. A user is the sum of vectors
    of the items it has taken, so nothing of a user is ever sent, and who comes later has a ranking at once. A training
    interaction is scored for the user without the very item, against items drawn anew in each step of those that the
    user has not in training. The score is AUC: the mean over users of the probability that an item that it took
    is above one that it did not; items of the training split are not ranked.

    Asked: a table `users` with columns "user" and perhaps "client" and "k", how many items (10). Each row gets the
    best ones that the user has not, best first: one row per item. A user whom several clients have needs "client". One
    client's own tables: `data` with "user" and "item", as the run's data have them.

    Source: Liu, Goudarzi, Toosi (multi-objective bandit participant selection), eqs (1) to (8), after DMRL (F. Liu et
        al., IEEE Transactions on Multimedia 2023): channels by modality, factors, attention by factor, GELU, margin
        loss, distance correlation. Users as sums of items: FISM (Kabbur, Ning, Karypis, KDD 2013). AUC, NDCG@k,
        Recall@k: section V-D1 there.
    Differs: users have no embedding of their own; an item has a bias; the softmax over sampled items is the default
        objective; attention has a channel for each modality that the data have, instead of three.

    Args:
        width: of the vectors of users and items, a multiple of `factors`.
        factors: blocks that a vector is cut into, >= 1.
        hidden: width of the perceptrons that read modalities, >= 1.
        attention: hidden width of the attention, >= 1.
        tied: whether users are sums of the items' own vectors (the default: half the bytes, as good), not of a second
            table.
        power: of the number of items that a user's sum is divided by, in [0, 1]: 0 a sum, 1 a mean.
        objective: what training makes small; the recipe's [loss] (the paper's: "margin").
        decorrelation: weight of the factors' distance correlation over items drawn, >= 0.
        k: length of the list that NDCG@k and Recall@k look at, >= 1.
        items: number of items; the data's, set by `fitted`.
        modalities: names of what is known of items; the data's, set by `fitted`.
        features: width of each of them; the data's, set by `fitted`.
        catalogue: fingerprint of the items' ids in their order; the data's, set by `fitted`.
    """

    sums: ClassVar[tuple[str, ...]] = ("users", "auc", "ndcg", "recall")
    """Users who have held-out items, and sums over them of AUC, NDCG@k and Recall@k."""
    stochastic: ClassVar[bool] = False  # a step draws from its own seed
    seeds_draws: ClassVar[bool] = True
    metric: ClassVar[str] = "auc"
    better: ClassVar[str] = "higher"
    asks: ClassVar[tuple[str, ...]] = ("users",)
    count_column: ClassVar[str] = "k"

    width: int = 64
    factors: PositiveInt = 2
    hidden: PositiveInt = 64
    attention: PositiveInt = 2
    tied: bool = True
    power: Proportion = 0.5
    objective: RankingObjective = SampledSoftmax()
    decorrelation: NonNegativeFloat = 0.0
    k: PositiveInt = 50
    items: int = 0
    modalities: tuple[str, ...] = ()
    features: tuple[int, ...] = ()
    catalogue: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = self.width >= 1 and self.width % self.factors == 0
        require(whole, "Ranking.width", f">= 1 and a multiple of the {self.factors} factors", self.width)
        pairs = self.factors > 1 or self.decorrelation == 0
        require(pairs, "Ranking.factors", ">= 2 where they are decorrelated", self.factors)

    def fitted(self, shards: Sequence[RankingShard]) -> Self:
        """Return this task with the catalogue's size and modalities.

        Raises `InputError` where clients do not know the same catalogue.
        """
        shards = telling(shards)
        first = shards[0]
        widths = {name: values.shape[1] for name, values in first.features.items()}
        for shard in shards[1:]:
            if not np.array_equal(shard.item_ids, first.item_ids):
                raise InputError(f"Clients {first.name!r} and {shard.name!r} must have one catalogue, in one order.")
        catalogue = fingerprint("\n".join(map(str, first.item_ids)).encode()).hex()
        fitted = replace(
            self, items=first.items, modalities=tuple(widths), features=tuple(widths.values()), catalogue=catalogue
        )
        for shard in shards:
            fitted._check(shard)
        return fitted

    def prepare(self, shard: RankingShard, shared: Arrays) -> RankingData:
        """Lists of what users have taken, and features of items."""
        self._check(shard)
        return RankingData.of(shard)

    def examples(self, data: RankingData) -> int:
        """Return how many training interactions the client has."""
        return len(data.item)

    def pooled(self, shards: Sequence[RankingShard]) -> RankingShard:
        """One client with everybody's users; equal ids at two clients stay two users."""
        return merge_shards(shards)

    def model(self, g: torch.Generator, variant: Hashable = None) -> nn.Module:
        """Return the ranker; at the start no item is preferred."""
        widths = dict(zip(self.modalities, self.features, strict=True))
        sizes = (self.width, self.factors, self.hidden, self.attention)
        return Ranker(self.items, widths, *sizes, self.tied, self.objective.dropout, g)

    def loss(self, model: nn.Module, data: RankingData, draw: Batch, encoded: Tensor | None) -> Loss:
        """Return the loss of each interaction of the draw, float32 [n]; with `decorrelation`, beside what all share."""
        ranker = cast(Ranker, model)
        data = data.to(ranker.bias.device)
        user, item = data.user[draw.examples], data.item[draw.examples]
        users, place = np.unique(user, return_inverse=True)
        row, taken = data.tensor(place), data.tensor(item)
        # Without the interaction itself: its item's vector leaves the sum.
        sums = data.sums(ranker.taken, users).index_select(0, row) - ranker.taken.index_select(0, taken)
        counts = data.counts[data.tensor(user)] - 1
        seen = ranker.users(sums, counts, self.power, draw.seed)
        items = ranker.items(data.features, draw.seed)
        drawn = self._drawn(draw.seed)
        others = items if len(drawn) == self.items else items.of(data.tensor(drawn))
        had = data.tensor(data.had(users, drawn)).index_select(0, row)
        scores = ranker.paired(seen, items.of(taken)), ranker.crossed(seen, others), had
        each = self.objective.losses(*scores, self.items)
        if self.decorrelation == 0:
            return each
        return Losses(each, self.decorrelation * dependence(others.channels))

    def evaluate(self, model: nn.Module, data: RankingData) -> dict[str, Sums]:
        """Sums over users who have held-out items, of rankings of all that they have not in training."""
        sums = {split: dict.fromkeys(self.sums, 0.0) for split in SCORED_SPLITS}
        users = np.arange(data.users)
        for part in np.split(users, range(0, len(users), max(1, SCORED // self.items)))[1:]:
            scores = self._scores(model, data, part)
            taken = lists_of(data.taken, part)
            for split, lists in data.held_out.items():
                added = score_users(scores, taken, lists_of(lists, part), self.k).sums()
                sums[split] = {name: sums[split][name] + added[name] for name in self.sums}
        return sums

    def score(self, sums: Sums) -> float:
        """Return the mean AUC of users; nan where none has a held-out item."""
        return self._mean(sums, "auc")

    def chance(self, sums: Sums) -> Chance | None:
        """Return the AUC of a random order."""
        return Chance("auc", 0.5, "a random order")

    def measures(self, sums: Sums) -> dict[str, float]:
        """Return AUC, NDCG@k and Recall@k, means over users."""
        names = {"auc": "auc", f"ndcg_at_{self.k}": "ndcg", f"recall_at_{self.k}": "recall"}
        return {name: self._mean(sums, of) for name, of in names.items()}

    def questions(self, shards: Sequence[RankingShard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
        """The client that has the user; of several, the one that a column "client" names."""
        return asked_users(shards, tables["users"])

    def predict(
        self, model: nn.Module, shard: RankingShard, remembered: Mapping[str, Any], asked: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return each user's best new items, columns [answers]: rank from 1, original id, score, and title if known."""
        data, users = self.prepare(shard, {}), asked["user"]
        distinct, place = np.unique(users, return_inverse=True)
        every = ItemLists.make(shard.user, shard.item, shard.users)
        best = best_items(self._scores(model, data, distinct)[place], every, users, asked["count"])
        item = best["item"]
        titles = {"title": shard.titles[item]} if len(shard.titles) else {}
        return {**best, "item": shard.item_ids[item], "score": best["score"].astype(np.float64), **titles}

    def vocabulary(self, shard: RankingShard) -> Sequence[str]:
        """The catalogue's items."""
        return [str(name) for name in shard.item_ids]

    def tables_of(self, questions: Any) -> dict[str, pd.DataFrame]:
        """Return the table of a list of users."""
        return tables_of(questions)

    def _check(self, shard: RankingShard) -> None:
        """Raise `InputError` for another catalogue than the model's, and for a user with nothing left to rank."""
        name = f"RankingShard({shard.name!r})"
        require(shard.items == self.items, f"{name}.item_ids", f"the {self.items:,} items of the model", shard.items)
        widths = {modality: values.shape[1] for modality, values in shard.features.items()}
        wanted = dict(zip(self.modalities, self.features, strict=True))
        require(widths == wanted, f"{name}.features", f"of the model's modalities and widths, {wanted}", widths)
        full = np.flatnonzero(np.bincount(shard.user, minlength=shard.users) == shard.items)
        if len(full):
            user = str(shard.user_ids[full[0]])
            raise InputError(f"{name}: user {user!r} has every one of the {shard.items:,} items; none is left to rank.")

    def _drawn(self, seed: int) -> Array:
        """Items drawn for a step, int64, distinct; all of them, in order, where that many are asked for."""
        if not 0 < self.objective.negatives < self.items:
            return np.arange(self.items)
        return np.random.default_rng(seed).choice(self.items, self.objective.negatives, replace=False)

    def _scores(self, model: nn.Module, data: RankingData, users: Array) -> Array:
        """Scores of all items for some users, float32 [users, items]; what they have taken is theirs."""
        ranker = cast(Ranker, model)
        data = data.to(ranker.bias.device)
        with torch.no_grad():
            counts = data.counts[data.tensor(users)]
            seen = ranker.users(data.sums(ranker.taken, users), counts, self.power, 0)
            scores: Array = ranker.ranking(seen, ranker.items(data.features, 0)).numpy(force=True)
        return scores

    def _mean(self, sums: Sums, name: str) -> float:
        return sums[name] / sums["users"] if sums.get("users") else float("nan")
