"""Round / bare floor: what the framework costs over a plain loop with the same kernels."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from fedgraft.contracts import Stage, randomness
from fedgraft.engine.plan import Plan
from fedgraft.engine.training import Optimizer
from timing import in_turns, ratio
from workloads import ciao_sized, federation, prepare


class Bare(ABC):
    """The same training without a federation: no clients, no messages, no checks, no ledger, no report.

    Load the flat vector, train, add to the mean; the same task, batches, kernels and optimiser, so the same model.
    """

    def __init__(self, plan: Plan, shards: Sequence[Any]) -> None:
        self._plan = plan
        self._data = prepare(plan, shards)
        examples = [plan.task.examples(data) for data in self._data]
        self._shares = [count / sum(examples) for count in examples]
        self.flat = plan.build_model()
        self._optimizer = Optimizer(plan.training, self.flat)
        self.model = self.flat.vector.clone()

    def round(self, number: int) -> None:
        """One round of all clients."""
        total = torch.zeros_like(self.model)
        for client, share in enumerate(self._shares):
            self.flat.vector.copy_(self.model)
            self._train(client, number)
            total.add_(self.flat.vector, alpha=share)
        self.model = total

    @abstractmethod
    def _train(self, client: int, number: int) -> None:
        """Train the flat vector on a client's data, in round `number`."""


class Floor(Bare):
    """Of tasks whose examples come in blocks."""

    def __init__(self, plan: Plan, shards: Sequence[Any]) -> None:
        super().__init__(plan, shards)
        self._blocks = [plan.task.blocks(data) for data in self._data]

    def _train(self, client: int, number: int) -> None:
        task, training, module = self._plan.task, self._plan.training, self.flat.module
        data, blocks = self._data[client], self._blocks[client]
        self._optimizer.reset(training.learning_rate)
        g = randomness.generator(self._plan.seed, "train", number, client)
        for index in g.permutation(len(blocks))[: training.blocks or None]:
            draws = self._plan.sampler.draw(None, blocks[index], Stage(), g)
            nodes = task.encode(module, data, blocks[index])
            shared = None if nodes is None else nodes.detach().requires_grad_()
            for draw in draws:
                self.flat.gradient.zero_()
                task.loss(module, data, draw, shared).mean().backward()  # type: ignore[no-untyped-call]
                if nodes is not None and shared is not None and shared.grad is not None and draw is draws[-1]:
                    nodes.backward(shared.grad / len(draws))  # type: ignore[no-untyped-call]
                self._optimizer.step()


def over_floor(share: float = 1.0, repeats: int = 7) -> float:
    """Seconds of a round / seconds of the floor."""
    plan, shards = ciao_sized(share)
    floor = Floor(plan, shards)
    with federation(plan, shards) as ours:
        seconds = in_turns({"ours": ours.round, "floor": floor.round}, repeats)
    return ratio(seconds, "ours", "floor")
