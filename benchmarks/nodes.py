"""Node classification: a round against a bare loop with the same kernels, and against the usual loop.

All variants train the same clients by the same steps and end with the same model; the ratios are those of the code
alone. The usual loop is `nodes_usual`.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from fedgraft.contracts import randomness
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.client_graph import Computed
from fedgraft.engine.plan import Plan
from fedgraft.engine.training import Optimizer
from fedgraft.experiment import job as jobs
from fedgraft.methods.selectors.random import Random
from fedgraft.nn.manual_gradients import cross_entropies
from fedgraft.wire.layouts import Arrays
from timing import in_turns, ratio
from workloads import federation, prepare

CLIENTS, COHORT = 100, 10
PUBMED = {"nodes": 19_717, "features": 500, "classes": 3, "degree": 4.5}
COAUTHOR = {"nodes": 18_333, "features": 6_805, "classes": 15, "degree": 9.0}
"""Sizes of the real data sets: PubMed, and Coauthor-CS."""
MODELS = {
    "s256": {"model.name": "sage", "model.hidden": [256, 128]},
    "g64": {"model.name": "gcn", "model.hidden": [64]},
}
TRAINING = {"sampler.batches": 0, "exchange.neighbours": 0, "task.head": "convolution"}
"""What differs from the recipe `fedlocal`: one step a pass, on all training nodes and all of their neighbours."""
EPOCHS = 5
"""Passes a round, as in the recipe."""


@lru_cache(maxsize=4)
def sized(
    model: str, epochs: int = EPOCHS, coauthor: bool = False, share: float = 1.0
) -> tuple[Plan, tuple[NodeShard, ...]]:
    """The plan of the recipe `fedlocal` with a model, and a made-up graph with sparse features, cut over clients.

    Args:
        model: one of `MODELS`.
        epochs: passes a round, each of one step.
        coauthor: whether the graph is of the size of Coauthor-CS; else of PubMed's.
        share: of that size.
    """
    graph: dict[str, Any] = dict(COAUTHOR if coauthor else PUBMED)
    graph.update(name="blocks", sparse=True, clients=CLIENTS, nodes=round(share * graph["nodes"]))
    made = {f"data.{key}": value for key, value in graph.items()}
    built = jobs.load("fedlocal", {**made, **TRAINING, **MODELS[model], "training.epochs": epochs})
    shards = tuple(built.data.load(built.seed))
    return built.fitted(shards).plan, shards


class Training:
    """What every variant knows: the clients' data, and who trains in a round with what share of the mean."""

    def __init__(self, plan: Plan, shards: Sequence[NodeShard]) -> None:
        self.plan, self.data = plan, prepare(plan, shards)
        self._examples = [plan.task.examples(data) for data in self.data]

    def cohort(self, number: int) -> list[tuple[int, float]]:
        """(client, share) of a round, as the selector draws them."""
        able = [client for client, examples in enumerate(self._examples) if examples]
        drawn = sorted(randomness.generator(self.plan.seed, "select", number).permutation(able)[:COHORT].tolist())
        total = sum(self._examples[client] for client in drawn)
        return [(client, self._examples[client] / total) for client in drawn]


class Floor(Training):
    """The same training without a federation: no messages, no memories, no checks, no ledger, no report.

    Load the flat vector, one step a pass, add to the mean; the same kernels and optimiser, everything else found
    beforehand.
    """

    def __init__(self, plan: Plan, shards: Sequence[NodeShard]) -> None:
        super().__init__(plan, shards)
        task: Any = plan.task
        most = (0,) * task.layers
        self._computed = [data.computed(data.rows["train"], most, True) for data in self.data]
        self.flat = plan.build_model()
        self._optimizer = Optimizer(plan.training, self.flat)
        self.model = self.flat.vector.clone()

    def round(self, number: int) -> None:
        """One round."""
        total = torch.zeros_like(self.model)
        self.flat.module.train()
        for client, share in self.cohort(number):
            self.flat.vector.copy_(self.model)
            self._optimizer.reset(self.plan.training.learning_rate)
            with torch.no_grad():
                self._train(self._computed[client])
            total.add_(self.flat.vector, alpha=share)
        self.model = total

    def _train(self, computed: Computed) -> None:
        share = torch.full((len(computed.label),), 1.0 / len(computed.label))
        for _ in range(self.plan.training.epochs):
            logits, back = self.flat.module.with_back(computed.inputs, computed.hops, None)  # type: ignore[operator]
            _, to_logits = cross_entropies(logits, computed.label)
            back(to_logits(share))
            self._optimizer.step()

    def arrays(self) -> Arrays:
        """The model by name."""
        self.flat.vector.copy_(self.model)
        return self.flat.read()


def s256_over_floor(epochs: int = EPOCHS, share: float = 1.0, repeats: int = 15) -> float:
    """Seconds of a round / seconds of the floor; PubMed's size, SAGE of 256 and 128."""
    return _over_floor("s256", epochs, False, share, repeats)


def g64_over_floor(epochs: int = EPOCHS, share: float = 1.0, repeats: int = 60) -> float:
    """Seconds of a round / seconds of the floor; PubMed's size, GCN of 64."""
    return _over_floor("g64", epochs, False, share, repeats)


def cs_over_floor(epochs: int = EPOCHS, share: float = 1.0, repeats: int = 7) -> float:
    """Seconds of a round / seconds of the floor; Coauthor's size, SAGE of 256 and 128."""
    return _over_floor("s256", epochs, True, share, repeats)


def _over_floor(model: str, epochs: int, coauthor: bool, share: float, repeats: int) -> float:
    plan, shards = sized(model, epochs, coauthor, share)
    floor = Floor(plan, shards)
    with federation(plan, shards, Random(clients=COHORT)) as ours:
        seconds = in_turns({"ours": ours.round, "floor": floor.round}, repeats, warm_up=WARM_UP)
    return ratio(seconds, "ours", "floor")


WARM_UP = 30
"""Rounds after which nearly every client has trained once, and so has what it keeps."""
