"""FedSage+: clients first train a generator of missing neighbours together, then a classifier on mended graphs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypedDict

import numpy as np

from fedgraft.contracts import PositiveInt, Sharing, Trainer, Update
from fedgraft.methods.one_model import moved
from fedgraft.wire.layouts import Arrays, Tree

GENERATOR = "generator."
"""Parameters of the part "generator" begin like this."""
FROZEN = "generator.frozen"
"""Its array that tells whether it is trained: 0, and 1 from then on that it is not."""


class State(TypedDict):
    """The global model, and rounds merged so far."""

    model: Arrays
    merges: int


@dataclass(frozen=True)
class FedSagePlus(Sharing[State]):
    """FedSage+: clients first train a generator of missing neighbours together, then a classifier on mended graphs.

    In the first rounds the generator and the classifier learn together, and all is averaged as in FedAvg. Then the
    generator is what it is: every client mends its own part of the graph with it once, and FedAvg goes on with the
    classifier alone.

    Source: Zhang et al., "Subgraph Federated Learning with Missing Neighbor Generation" (FedSage+), NeurIPS 2021,
        and its published code; the task's part is in `fedgraft.domains.nodes.training.mended_graph`.
    Differs:
        One generator for all, averaged. In the paper every client has its own, which is its point; it sends it with the
            embeddings of all its nodes to all others in every epoch, and adds up the gradients that come back of how
            near to their nodes what it generates is. Here clients tell each other some embeddings, by way of the
            server, as they were at the beginning of their last round, and each trains the generator to make of those
            that it was told neighbours near to its own nodes: the same loss, at the other end.
        Embeddings, counts and features learn in the same rounds; the code ends with rounds for features alone.
        What is generated is a linear map of the embedding and tanh, as the paper writes it, drawn so that it begins
            near nothing; the code has two layers of 256 and 2,048 in between, which for PubMed would be seventeen times
            the classifier. No dropout within the generator.
        Every step hides other nodes, at random among those outside the batch; the code hides some of the validation
            nodes once. Losses are over training nodes, as in the code.
        Features are held to the squared distance; the code takes its mean over features, beside which the loss of
            classes is so large that it alone decides what is generated. All `generated` neighbours of a node that lacks
            any learn; in the paper as many as it is thought to lack, in the code the others are drawn to zero. Each is
            held to the nearest lost neighbour, and the mean is over what is generated.
        Numbers of neighbours are rounded; the code cuts them off. The three losses, and the one of others' nodes, weigh
            the same, as in the code, where the last is the mean over clients.

    Args:
        rounds: in which the generator is trained, >= 1; 20 as the code's epochs.

    State:
        model: the model's arrays; merges: int.
    Needs: a model with "generator".
    Cost: the classifier down and its difference up, per selected client. The generator travels with them while it is
        trained, and down once more to each client that is selected afterwards. While it is trained, embeddings of at
        most `elsewhere` nodes of 128 numbers up and as many down.
    """

    parts: ClassVar[frozenset[str]] = frozenset({"generator"})

    rounds: PositiveInt = 20

    def settles(self, name: str) -> bool:
        """Return whether it is the generator's."""
        return name.startswith(GENERATOR)

    def init(self, model: Arrays, clients: int) -> State:
        """Start from the drawn model."""
        return {"model": model, "merges": 0}

    def model(self, state: State, group: int = 0) -> Arrays:
        """Return the global model."""
        return state["model"]

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """The common round; a generator that is frozen stays as it was received."""
        frozen = FROZEN in received and received[FROZEN][0] > 0.5  # a codec may have touched it
        trainer.load(received)
        trainer.run(frozen=[name for name in received if name.startswith(GENERATOR)] if frozen else ())
        return trainer.difference(received), memory

    def merge(self, state: State, updates: Sequence[Update]) -> State:
        """Add the weighted sum of updates, of the generator only as long as it is trained."""
        before, merges = state["model"], state["merges"] + 1
        model = moved(before, updates)
        if state["merges"] >= self.rounds:
            model |= {name: before[name] for name in model if name.startswith(GENERATOR)}
        if FROZEN in model:
            model[FROZEN] = np.full_like(before[FROZEN], merges >= self.rounds)
        return {"model": model, "merges": merges}
