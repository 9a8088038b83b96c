"""FedAvg: one global model, the weighted mean of what the clients trained."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fedgraft.contracts import Update
from fedgraft.methods.one_model import ModelState, OneModel


@dataclass(frozen=True)
class FedAvg(OneModel):
    """FedAvg: one global model, the weighted mean of what the clients trained.

    Source: McMahan et al., AISTATS 2017; FedACS (Xu et al., IEEE TMC 2025), Eq. (5).
    Differs: clients send differences to the model they received, which the server adds to its own; with a lossless
        codec that is the mean of their models, with a lossy one nothing is lost twice.

    Args:
        weights: "examples", clients' numbers of training examples or what the selector gives; or "equal", the plain
            mean of those that answered (FedAIS, Li et al., AAAI 2025, Algorithm 1, line 7).

    State:
        model: the model's arrays.
    Cost: the model down and its difference up, per selected client.
    """

    weights: Literal["examples", "equal"] = "examples"

    def merge(self, state: ModelState, updates: Sequence[Update]) -> ModelState:
        """Add the weighted sum of updates, in client order."""
        if self.weights == "equal":
            shares = [1.0 / (1 + update.staleness) for update in updates]
            total = len(shares) if all(update.staleness for update in updates) else sum(shares)
            weights = [share / total for share in shares]
            updates = [replace(update, weight=weight) for update, weight in zip(updates, weights, strict=True)]
        return super().merge(state, updates)
