"""What is run: a federation sized like Ciao on generated shops, and clients that have next to nothing to do."""

import tempfile
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from fedgraft.contracts import Batch, Runtime, Selector, Sums, Task
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.clock import Clock
from fedgraft.engine.server.loop.loop import Loop
from fedgraft.engine.server.loop.stopping import Evaluation, Stopping
from fedgraft.experiment import job as jobs
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.methods.selectors.all import All
from fedgraft.runtimes.workers.in_process import InProcess
from fedgraft.wire.layouts import Arrays

CIAO = {"users": 7000, "items": 100_000, "links": 110_000, "count": 280_000}
"""Sizes of the real data set, near enough."""
RECIPE = {"model.name": "gcn", "selector.name": "all", "training.schedule": "constant"}
"""What differs from the recipe `fedacs`: the GCN, and everybody trains, at one rate, so that rounds are alike."""
CLIENTS, CATEGORIES = 10, 28
ASSAYS, GRAPHS = 7, 300
"""As many sets as CHEM has, of as many graphs as its median."""
NEVER = 10**6


@lru_cache(maxsize=4)
def ciao_sized(share: float = 1.0) -> tuple[Plan, tuple[Any, ...]]:
    """The plan of the recipe `fedacs` with the GCN, and ten made-up shops, `share` times as large as Ciao."""
    sizes = {f"data.{name}": round(share * value) for name, value in CIAO.items()}
    made = {"data.name": "shops", "data.clients": CLIENTS, "data.categories": CATEGORIES, **sizes}
    built = jobs.load("fedacs", {**made, **RECIPE})
    return built.plan, tuple(built.data.load(built.seed))


@lru_cache(maxsize=2)
def assays(graphs: int = GRAPHS) -> tuple[Plan, tuple[Any, ...]]:
    """The plan of FedAvg in the recipe `cefgl`, 32 bits a number, and seven made-up sets of so many training graphs."""
    made = {"data.name": "molecules", "data.clients": ASSAYS, "data.graphs": round(graphs / 0.8)}
    changes = {"sharing.name": "fedavg", "codec.name": "identity", "task.places": False}
    built = jobs.load("cefgl", {**made, **changes})
    return built.plan, tuple(built.data.load(built.seed))


def prepare(plan: Plan, shards: Sequence[Any]) -> list[Any]:
    """Every client's prepared data, after the set-up in which clients may publish statistics."""
    if plan.publishing is None:
        return [plan.task.prepare(shard, {}) for shard in shards]
    published = {client: plan.publishing.statistics(shard) for client, shard in enumerate(shards)}
    combined = plan.publishing.combine(published) if any(published.values()) else {}
    return [plan.task.prepare(shard, combined.get(client, {})) for client, shard in enumerate(shards)]


class Federation:
    """A federation in its own loop; `round` is one step of it, with what a stored run writes after each."""

    def __init__(
        self,
        plan: Plan,
        selector: Selector[Any],
        runtime: Runtime,
        folder: Path,
        evaluation: Evaluation | None = None,
    ) -> None:
        self._runtime = runtime
        # A round is trained, not scored: the floors beside it do not score either.
        stopping = Stopping(rounds=NEVER)
        self._loop = Loop(plan, selector, self._runtime, Clock(), stopping, evaluation or Evaluation(every=NEVER))
        self._store = RunFolder.begin(folder)
        self._store.describe("", {}, {})
        self.plan, self.state = plan, self._loop.start()
        self._loop.ledger.drain()

    def round(self, number: int) -> None:
        """Round `number`, the next one; raises if a client failed, since a failure is quick."""
        row = self._loop.step(self.state)
        if row is None or row.failed or row.round != number:
            raise RuntimeError(f"round {number} did not go as planned: {row}")
        self._store.append(row, self._loop.ledger.drain())

    def score(self) -> None:
        """Score the model, as a run does every so many rounds."""
        self._loop._score(self.state)

    def model(self) -> Arrays:
        """The global model."""
        model: Arrays = self.plan.sharing.model(self.state.sharing)
        return model

    def close(self) -> None:
        """End the workers."""
        self._runtime.close()


@contextmanager
def federation(
    plan: Plan,
    shards: Sequence[Any],
    selector: Selector[Any] | None = None,
    workers: int = 0,
    evaluation: Evaluation | None = None,
    start: Callable[[], Runtime] | None = None,
) -> Iterator[Federation]:
    """A federation that has begun; all clients take part in every round unless a selector says otherwise.

    Its runtime is so many worker processes, or what `start` starts.
    """
    plan = replace(plan, rounds=0)  # as many as are timed
    runtime = start() if start else InProcess(plan, shards, workers, threads=1)
    with tempfile.TemporaryDirectory() as folder:
        running = Federation(plan, selector or All(), runtime, Path(folder) / "run", evaluation)
        try:
            yield running
        finally:
            running.close()


@dataclass(frozen=True)
class Idle(Task[int, int]):
    """Next to nothing to learn, with a model as large as that of `model_of`: one step on one number.

    What is left of a round is the framework: messages, checks, states, the optimiser's set-up, the mean.
    """

    metric: ClassVar[str] = "none"
    better: ClassVar[str] = "lower"

    model_of: Task[Any, Any]

    @property
    def sums(self) -> tuple[str, ...]:
        """A count."""
        return ("count",)

    def prepare(self, shard: int, shared: Arrays) -> int:
        """The client's index is all it has."""
        return shard

    def examples(self, data: int) -> int:
        """One."""
        return 1

    def model(self, g: torch.Generator, variant: Hashable = None) -> nn.Module:
        """The other task's model."""
        return self.model_of.model(g)

    def loss(self, model: nn.Module, data: int, draw: Batch, encoded: torch.Tensor | None) -> torch.Tensor:
        """Of one number of the model."""
        return (model.get_parameter("out.bias") - 1.0) ** 2

    def evaluate(self, model: nn.Module, data: int) -> dict[str, Sums]:
        """Nothing to score."""
        return {split: {"count": 1.0} for split in SCORED_SPLITS}

    def score(self, sums: Sums) -> float:
        """Nothing to score."""
        return 0.0


def idle() -> Plan:
    """The plan of the recipe, for clients that have next to nothing to do."""
    plan = jobs.load("fedacs", RECIPE).plan
    return replace(plan, task=Idle(plan.task))
