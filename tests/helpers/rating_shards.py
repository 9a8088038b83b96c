"""Shards of ratings written by hand or drawn, and what a model sees of them."""

from dataclasses import replace

import numpy as np
import torch

from fedgraft.contracts import randomness
from fedgraft.domains.ratings.features import Known
from fedgraft.domains.ratings.shards import RatingShard
from fedgraft.engine.client.local_trainer import LocalTrainer
from fedgraft.engine.training import Optimizer, Training
from fedgraft.methods.models.gat import GAT
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.samplers.all import All
from fedgraft.methods.tasks.rating import Pairs, Rating, RatingData
from fedgraft.nn.flat_model import FlatModel
from helpers.toy_runs import toy

ENCODERS = {"gcn": GCN(hidden=4, embedding=4, layers=2), "gat": GAT(hidden=4, embedding=4, layers=2)}


def shard_of(rows, users, items, trust=(), scale=(1.0, 5.0), name="shop") -> RatingShard:
    """A shard of (user, item, rating, split) rows and (who trusts, whom) links; even items are of category 0."""
    user, item, rating, split = (np.array(column) for column in zip(*rows, strict=True))
    return RatingShard(
        name=name,
        users=np.arange(users),
        items=np.arange(items),
        user=user.astype(np.int64),
        item=item.astype(np.int64),
        category=(item % 2).astype(np.int64),
        rating=rating.astype(np.float32),
        split=split.astype(np.uint8),
        trust=np.array(trust, dtype=np.int64).reshape(-1, 2).T,
        scale=scale,
        n_categories=2,
        user_ids=np.array([f"u{k}" for k in range(users)]),
        item_ids=np.array([f"i{k}" for k in range(items)]),
    )


HAND = shard_of([(0, 0, 5, 0), (0, 1, 5, 0), (1, 0, 3, 0), (1, 1, 3, 0), (2, 2, 4, 0)], 3, 3, trust=[(2, 0), (1, 2)])


def random_shard(seed: int, users: int = 7, items: int = 6, density: float = 0.6, links: int = 9) -> RatingShard:
    """Ratings of random pairs, at least one of them for training."""
    g = np.random.default_rng(seed)
    user, item = np.nonzero(g.random((users, items)) < density)
    if not len(user):
        user, item = np.array([0]), np.array([0])
    split = g.choice(3, len(user), p=(0.7, 0.15, 0.15))
    split[g.integers(len(user))] = 0
    ends = g.integers(0, users, (links, 2))
    ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    return shard_of(list(zip(user, item, g.integers(1, 6, len(user)), split, strict=True)), users, items, ends)


def rerated(shard: RatingShard, rows, seed: int = 0) -> RatingShard:
    """The same shard with another value for each of these ratings."""
    g = np.random.default_rng(seed)
    rating = shard.rating.copy()
    rating[rows] = 1 + (rating[rows] - 1 + g.integers(1, 5, len(rows))) % 5
    assert (rating[rows] != shard.rating[rows]).all()
    return replace(shard, rating=rating)


def known_of(pairs: Pairs) -> dict[str, bytes]:
    """Every bit that a prediction of these pairs rests on: all but their ratings."""
    view = pairs.view
    tensors = {
        **{name: getattr(pairs, name) for name in ("user", "item", "features", "base")},
        **{name: getattr(view, name) for name in ("nodes", "edges", "norm")},
        **{f"graph {name}": value for name, value in vars(view.graph).items() if isinstance(value, torch.Tensor)},
    }
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


def trained_on(data: RatingData) -> list[object]:
    """Every bit that training sees."""
    pairs = [(known_of(fold), fold.rating.numpy().tobytes()) for fold in data.folds]
    return [pairs, data.fold.tolist(), data.place.tolist(), data.label_shares]


def lively(task: Rating, seed: int = 0) -> torch.nn.Module:
    """A model whose every parameter matters: the head's last layer starts at zero otherwise."""
    g = torch.Generator().manual_seed(seed)
    model = task.model(g).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=g)
    return model


def predicted(model: torch.nn.Module, pairs: Pairs) -> bytes:
    with torch.no_grad():
        return model(pairs).numpy().tobytes()


def trained(task: Rating, shard: RatingShard) -> bytes:
    """All parameters after three local epochs."""
    flat = FlatModel(lively(task))
    training = Training(epochs=3, learning_rate=0.02)
    plan = replace(toy().plan, task=task, sampler=All(batch_size=4), training=training)
    data, g = task.prepare(shard, {}), randomness.generator(1, "train")
    LocalTrainer(plan, flat, Optimizer(training, flat), data, None, g, 0.02).run()
    return flat.vector.numpy().tobytes()


def one_item_each(users, user, rating) -> Known:
    """All ratings of a client whose users have these numbers; each is of an item of its own.

    So biases of items are shrunk residuals and nothing else.
    """
    n = len(rating)
    shard = RatingShard(
        name="shop",
        users=np.array(users),
        items=np.arange(n),
        user=np.array(user, np.int64),
        item=np.arange(n),
        category=np.zeros(n, np.int64),
        rating=np.array(rating, np.float32),
        split=np.zeros(n, np.uint8),
        trust=np.zeros((2, 0), np.int64),
        scale=(1.0, 5.0),
        n_categories=1,
        user_ids=np.array(users),
        item_ids=np.arange(n),
    )
    return Known(shard, np.arange(n))
