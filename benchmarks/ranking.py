"""Ranking: a round against a bare loop with the same kernels, and the time of a whole ranking, metrics included."""

import time
from dataclasses import replace
from functools import lru_cache
from statistics import median
from typing import Any

import numpy as np
import torch

from fedgraft.contracts import Stage, randomness
from fedgraft.contracts.task import Loss
from fedgraft.contracts.values import Losses
from fedgraft.domains.ranking.metrics import score_users
from fedgraft.engine.allocator import keep_freed
from fedgraft.engine.client.model_views import SEEDS
from fedgraft.engine.plan import Plan
from fedgraft.experiment import job as jobs
from fedgraft.experiment.recipes.recipe import Recipe
from floor import Bare
from timing import in_turns, ratio
from workloads import federation

MOVIELENS = {"users": 943, "items": 1682, "count": 100_000, "text": 64, "image": 0, "topics": 20}
"""Sizes of MovieLens-100K with one modality, made up."""
RECIPE = {
    "task": {"name": "ranking"},
    "selector": {"name": "all"},
    "sampler": {"name": "all", "batch_size": 512},
    "training": {"optimizer": "adamw", "learning_rate": 0.007, "weight_decay": 0.3, "schedule": "constant"},
}


@lru_cache(maxsize=4)
def movielens_sized(share: float = 1.0) -> tuple[Plan, tuple[Any, ...]]:
    """The plan of FedAvg with the ranker, and eight clients of made-up users, `share` times MovieLens."""
    sizes = {**MOVIELENS, "users": round(share * 943), "count": round(share * 100_000)}
    data = {"name": "catalogue", "clients": 8, "partition": "exponential", "ubi": 0.0146, **sizes}
    built = jobs.build(Recipe("ranking", {**RECIPE, "data": data}))
    shards = tuple(built.data.load(built.seed))
    return built.fitted(shards).plan, shards


class Floor(Bare):
    """Of ranking, whose draws have a seed each."""

    def _train(self, client: int, number: int) -> None:
        task, data = self._plan.task, self._data[client]
        self._optimizer.reset(self._plan.training.learning_rate)
        self.flat.module.train()
        g = randomness.generator(self._plan.seed, "train", number, client)
        for draw in self._plan.sampler.draw(None, self._plan.task.blocks(data)[0], Stage(), g):
            draw = replace(draw, seed=int(g.integers(SEEDS)))
            self.flat.gradient.zero_()
            _objective(task.loss(self.flat.module, data, draw, None)).backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()


def over_floor(share: float = 1.0, repeats: int = 5) -> float:
    """Seconds of a round / seconds of the floor."""
    plan, shards = movielens_sized(share)
    floor = Floor(plan, shards)
    with federation(plan, shards) as ours:
        seconds = in_turns({"ours": ours.round, "floor": floor.round}, repeats)
    return ratio(seconds, "ours", "floor")


def ranking_seconds(repeats: int = 9) -> float:
    """Seconds of the scores of all users for all items and the metrics of one split, on one thread."""
    keep_freed()  # as every process of a run has it
    plan, shards = movielens_sized()
    task: Any = plan.task
    data = task.prepare(task.pooled(shards), {})
    model = plan.build_model().module.eval()
    seconds = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(repeats):
            began = time.perf_counter()
            scores = task._scores(model, data, np.arange(data.users))
            score_users(scores, data.taken, data.held_out["test"], task.k)
            seconds.append(time.perf_counter() - began)
    finally:
        torch.set_num_threads(threads)
    return median(seconds)


def _objective(found: Loss) -> torch.Tensor:
    return found.each.mean() + found.shared if isinstance(found, Losses) else found.mean()
