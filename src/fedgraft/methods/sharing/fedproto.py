"""FedProto: clients with models of their own tell each other mean hidden states of classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Update
from fedgraft.methods.class_prototypes import COUNTS, PROTOTYPES, ClassPrototypes, means
from fedgraft.wire.layouts import Arrays


class State(TypedDict):
    """State at the server: prototypes, float32 [classes, width]; counts, int32 [classes], 0 = none is known."""

    prototypes: NDArray[np.float32]
    counts: NDArray[np.int32]


@dataclass(frozen=True)
class FedProto(ClassPrototypes[State]):
    """FedProto: clients with models of their own tell each other mean hidden states of classes.

    A client's prototype of a class is the mean of the last hidden layer over its training examples of that class. The
    server's is the mean of theirs, by examples, over the clients that have the class. With z the last hidden layer over
    an example and P the server's prototype of its class, every step's loss gets

        weight * mean over the step's examples of ||z - P||^2 / width

    No parameter travels; each client answers with its own model.

    Source: Tan et al., "FedProto: Federated Prototype Learning across Heterogeneous Clients", AAAI 2022, Eq. (3), (6)
        and (7), Algorithm 1.
    Differs: all clients have the model of the recipe. The distance is the square of the printed one over the width, as
        in the authors' code, and taken of each example. Eq. (6) divides once more by the number of clients, which would
        shrink prototypes; the code takes plain means over clients. Answers are the model's own, as the task gives them,
        and not the nearest prototype. Of a class that nobody told of in a round the last prototype stays.

    Args:
        weight: lambda, >= 0; 1 is the authors' code's default.
        width: of the model's last hidden layer; 0 = as it is.
        classes: how many there are; 0 = as the data have.

    State: see `State`.
    Needs: a task that tells its hidden layer, and classes that all clients have in common.
    Cost: a prototype and a count for each class, down and up, per selected client.
    """

    def init(self, model: Arrays, clients: int) -> State:
        """No prototypes."""
        prototypes, counts = self.empty()
        return {"prototypes": prototypes, "counts": counts}

    def model(self, state: State, group: int = 0) -> Arrays:
        """The prototypes."""
        return {PROTOTYPES: state["prototypes"], COUNTS: state["counts"]}

    def merge(self, state: State, updates: Sequence[Update]) -> State:
        """Means of the prototypes that were sent."""
        new, counts = means(updates, count=True)
        told = counts > 0
        prototypes = np.where(told[:, None], new, state["prototypes"]).astype(np.float32)
        return {"prototypes": prototypes, "counts": np.where(told, counts, state["counts"]).astype(np.int32)}
