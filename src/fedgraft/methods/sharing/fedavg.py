"""FedAvg: one global model, the weighted mean of what the clients trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from fedgraft.contracts import Sharing, Update
from fedgraft.errors import require
from fedgraft.methods.aggregation import moved
from fedgraft.wire.layouts import Arrays


class State(TypedDict):
    """The global model, its running mean (the model itself without averaging), and rounds merged so far."""

    model: Arrays
    mean: Arrays
    merges: int


@dataclass(frozen=True)
class FedAvg(Sharing[State]):
    """FedAvg: one global model, the weighted mean of what the clients trained.

    Source: McMahan et al., AISTATS 2017; FedACS (Xu et al., IEEE TMC 2025), Eq. (5).
    Differs: clients send differences to the model they received, which the server adds to its own; with a lossless
        codec that is the mean of their models, with a lossy one nothing is lost twice.

    Args:
        averaging: decay of an exponential running mean over the global models of past rounds, in [0, 1); that mean is
            what is scored and kept, while training goes on from the model itself. It costs no bytes and evens out the
            noise of small cohorts. 0 = off (the published method).

    State:
        model, mean: the model's arrays; merges: int.
    Cost: the model down and its difference up, per selected client.
    """

    averaging: float = 0.0

    def __post_init__(self) -> None:
        require(0 <= self.averaging < 1, "FedAvg.averaging", "in [0, 1)", self.averaging)

    def init(self, model: Arrays, clients: int) -> State:
        """Start from the drawn model."""
        return {"model": model, "mean": model, "merges": 0}

    def model(self, state: State, group: int = 0) -> Arrays:
        """The global model."""
        return state["model"]

    def evaluated(self, state: State, group: int = 0) -> Arrays:
        """The running mean of global models."""
        return state["mean"]

    def merge(self, state: State, updates: Sequence[Update]) -> State:
        """Add the weighted sum of updates, in client order."""
        model = moved(state["model"], updates)
        if not self.averaging:
            return {"model": model, "mean": model, "merges": state["merges"] + 1}
        # The first rounds average over all models so far, so that the drawn one is soon forgotten.
        decay = min(self.averaging, state["merges"] / (state["merges"] + 1.0))
        mean = {
            name: (decay * state["mean"][name] + (1.0 - decay) * value).astype(value.dtype)
            for name, value in model.items()
        }
        return {"model": model, "mean": mean, "merges": state["merges"] + 1}
