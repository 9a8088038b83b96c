"""Node classification: the least that a federation adds to the bare loop, if what it sends are real bytes.

The model goes down as bytes and every client's difference comes back as bytes; both are copied where they are used,
what comes back is looked at once, and the mean is taken in double precision. Nothing else that a federation needs is
there: no memories, no kinds of messages, no selection, sampler, report, ledger, failure or checkpoint. What a round
takes beyond this is our frame; what this takes beyond the floor is the price of sending at all.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from fedgraft.contracts import Update
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.engine.allocator import keep_freed
from fedgraft.engine.plan import Plan
from fedgraft.methods.one_model import moved
from fedgraft.methods.selectors.random import Random
from fedgraft.wire.layouts import Array, Arrays, finite
from nodes import COHORT, EPOCHS, WARM_UP, Floor, sized
from timing import in_turns, ratio
from workloads import federation


class Least(Floor):
    """The floor, and the bytes, the looks and the mean of a federation with it."""

    def __init__(self, plan: Plan, shards: Sequence[NodeShard]) -> None:
        super().__init__(plan, shards)
        keep_freed()  # as a runtime does: messages are made and freed in every round
        self._now = self.flat.read()

    def round(self, number: int) -> None:
        """One round."""
        down = self._sent(self._now)
        updates = []
        self.flat.module.train()
        for client, share in self.cohort(number):
            received = dict(self._read(down))
            self.flat.load(received)
            self._optimizer.reset(self.plan.training.learning_rate)
            with torch.no_grad():
                self._train(self._computed[client])
            arrays = dict(self._read(self._sent(self.flat.difference(received))))
            if not all(map(finite, arrays.values())):
                raise FloatingPointError(f"client {client}")
            updates.append(Update(client, share, arrays))
        self._now = moved(self._now, updates)

    def arrays(self) -> Arrays:
        """The model by name."""
        return self._now

    def _sent(self, arrays: Arrays) -> bytes:
        return b"".join(memoryview(array).cast("B") for array in arrays.values())

    def _read(self, message: bytes) -> Iterator[tuple[str, Array]]:
        begin = 0
        for name, array in self._now.items():
            yield name, np.frombuffer(message, array.dtype, array.size, begin).reshape(array.shape)
            begin += array.nbytes


def s256_over_least(share: float = 1.0, repeats: int = 15) -> float:
    """Seconds of our round / seconds of the least federation; PubMed's size, SAGE of 256 and 128."""
    return _over_least("s256", share, repeats)


def g64_over_least(share: float = 1.0, repeats: int = 60) -> float:
    """Seconds of our round / seconds of the least federation; PubMed's size, GCN of 64."""
    return _over_least("g64", share, repeats)


def cs_over_floor() -> float:
    """Seconds of the least federation / seconds of the floor; Coauthor's size, SAGE of 256 and 128."""
    plan, shards = sized("s256", EPOCHS, True, 1.0)
    least, floor = Least(plan, shards), Floor(plan, shards)
    seconds = in_turns({"least": least.round, "floor": floor.round}, 7, warm_up=WARM_UP)
    return ratio(seconds, "least", "floor")


def _over_least(model: str, share: float, repeats: int) -> float:
    plan, shards = sized(model, EPOCHS, False, share)
    least = Least(plan, shards)
    with federation(plan, shards, Random(clients=COHORT)) as ours:
        seconds = in_turns({"ours": ours.round, "least": least.round}, repeats, warm_up=WARM_UP)
    return ratio(seconds, "ours", "least")
