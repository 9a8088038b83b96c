"""Typed graphs: a round against a bare loop with the same kernels, on the parts of twenty clients.

Real sets where they are (FEDGRAFT_DATA, or the folder of the repository's own), else a made-up graph of their size.
HAN against PyG's is `typed_usual`.
"""

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from fedgraft.contracts import Batch, randomness
from fedgraft.contracts.values import Losses
from fedgraft.domains.typed.shards import TypedGraph
from fedgraft.engine.plan import Plan
from fedgraft.engine.training import Optimizer
from fedgraft.experiment import job as jobs
from fedgraft.methods.selectors.random import Random
from fedgraft.wire.layouts import Arrays
from timing import in_turns, ratio
from workloads import federation, prepare

ROOT = Path(os.environ.get("FEDGRAFT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
CLIENTS, COHORT, WARM_UP = 20, 4, 15
ACM = {"papers": 200, "features": 1902, "classes": 3, "authors": 2400, "venues": 20, "sparse": True}
DBLP = {"papers": 200, "features": 334, "classes": 4, "authors": 3600, "venues": 5, "sparse": True}
"""Made-up graphs of about the sizes of ACM and DBLP."""
PLAIN = {"sharing": {"name": "fedavg"}, "sampler": {"name": "all"}, "training.schedule": "constant", "baselines": []}
"""What differs from the recipe `rafhgl`: agents and prototypes are work that the bare loop has not."""


@lru_cache(maxsize=4)
def sized(name: str, share: float = 1.0) -> tuple[Plan, tuple[TypedGraph, ...]]:
    """The plan of the recipe `rafhgl` with FedAvg and all training nodes, and the parts of its clients.

    Args:
        name: "acm" or "dblp".
        share: of the size of the made-up graph, which is taken for any share but 1.
    """
    made = {"name": "typed_blocks", **(ACM if name == "acm" else DBLP)}
    if share != 1:
        made.update(papers=round(share * made["papers"]), features=64)
    real = share == 1 and (ROOT / "HeCo" / name).is_dir()
    if share == 1 and not real:
        print(f"{name}: not at {ROOT}; made up.")
    data = {"name": name, "root": str(ROOT)} if real else made
    built = jobs.load("rafhgl", {**PLAIN, "data": {**data, "clients": CLIENTS}, "selector": {"name": "all"}})
    shards = tuple(built.data.load(built.seed))
    return built.fitted(shards).plan, shards


class Floor:
    """The same training without a federation: no messages, no memories, no checks, no ledger, no report."""

    def __init__(self, plan: Plan, shards: Sequence[TypedGraph]) -> None:
        self.plan, self._data = plan, prepare(plan, shards)
        self._examples = [plan.task.examples(data) for data in self._data]
        self.flat = plan.build_model()
        self._optimizer = Optimizer(plan.training, self.flat)
        self.model = self.flat.vector.clone()

    def round(self, number: int) -> None:
        """One round of the clients that the selector draws."""
        drawn = sorted(randomness.generator(self.plan.seed, "select", number).permutation(CLIENTS)[:COHORT].tolist())
        every = sum(self._examples[client] for client in drawn)
        total = torch.zeros_like(self.model)
        self.flat.module.train()
        for client in drawn:
            self.flat.vector.copy_(self.model)
            self._optimizer.reset(self.plan.training.learning_rate)
            blocks = self.plan.task.blocks(self._data[client])
            for _ in range(self.plan.training.epochs):
                step(self.plan, self.flat, self._optimizer, self._data[client], Batch(blocks[0]))
            total.add_(self.flat.vector, alpha=self._examples[client] / every)
        self.model = total

    def arrays(self) -> Arrays:
        """The model by name."""
        self.flat.vector.copy_(self.model)
        return self.flat.read()


def step(plan: Plan, flat: Any, optimizer: Optimizer, data: Any, draw: Batch) -> None:
    """One step on the nodes of a draw."""
    flat.gradient.zero_()
    losses = plan.task.loss(flat.module, data, draw, None)
    assert isinstance(losses, Losses)
    losses.each.mean().backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def acm_over_floor(share: float = 1.0, repeats: int = 25) -> float:
    """Seconds of a round / seconds of the floor; four of twenty clients, ACM."""
    return _over_floor("acm", share, repeats)


def dblp_over_floor(share: float = 1.0, repeats: int = 25) -> float:
    """Seconds of a round / seconds of the floor; four of twenty clients, DBLP."""
    return _over_floor("dblp", share, repeats)


def _over_floor(name: str, share: float, repeats: int) -> float:
    plan, shards = sized(name, share)
    floor = Floor(plan, shards)
    with federation(plan, shards, Random(clients=COHORT)) as ours:
        seconds = in_turns({"ours": ours.round, "floor": floor.round}, repeats, warm_up=WARM_UP)
    return ratio(seconds, "ours", "floor")
