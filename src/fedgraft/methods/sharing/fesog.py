"""FeSoG: FedGNN's tables with attention over friends, pseudo-labelled items, and noise as large as the update."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgraft.contracts import NonNegativeFloat, PositiveFloat, Trainer, Update
from fedgraft.methods.one_model import ModelState, OneModel
from fedgraft.methods.private_rows import client_noise, moved_by_rows, noised, touched
from fedgraft.wire.layouts import Array, Arrays, Tree


@dataclass(frozen=True)
class FeSoG(OneModel):
    """FeSoG: tables of users and items travel; friends count, and items that nobody rated are pseudo-labelled.

    The model weighs friends, items and the user's own row by their relation. Local training has, beside ratings, items
    that a user did not rate with the model's own rounded prediction for a label, so that their rows move too. Every
    number of an update is cut to [-clip, clip]; to each is added a draw of Laplace(0, noise |mean of the array|).

    Source: Liu, Yang, Fan, Peng, Yu, "Federated Social Recommendation with Graph Neural Network", ACM TIST 2022
        (arXiv:2111.10778), sections 4.1 to 4.4 and Algorithm 1; the authors' code (YangLiangwei/FeSoG; read, not
        copied).
    Differs:
        - Clients are shops with many users, in the paper single users; friends are those who are at the same shop.
        - Each number has a draw of its own; the code adds one draw to all numbers of an array, which anybody could
          subtract. The mean is that over rows that are sent, and tells something of them: this noise gives no bound on
          privacy, in the paper neither.
        - What is clipped and noised is the update of a round of local steps, where the paper has one gradient, and the
          server adds it as it is. Its weight decay, w -= 0.001 w over whole tables, is left out.
        - A row is the mean over those who sent it, weighted by clients' examples; the paper's weights are numbers of
          items returned. Pseudo-labelled items are drawn once, not in every round, which would tell which are real.
        - The tables are sent whole to the clients; see `fedgnn`. Upwards untouched rows are zeros.

    Args:
        clip: largest magnitude of a number, > 0; 0.3 (code).
        noise: scale of the noise as a share of the array's mean, >= 0; 0.1 (code); 0 adds none.

    State:
        model: the model's arrays.
    Needs: a model with "embeddings" and "relations"; no weight decay.
    Cost: the model down and its difference up, per selected client.
    """

    merges_means: ClassVar[bool] = False  # of a table, row by row, by those that touched the row

    parts: ClassVar[frozenset[str]] = frozenset({"embeddings", "relations"})

    clip: PositiveFloat = 0.3
    noise: NonNegativeFloat = 0.1

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Train; the update, clipped and noised."""
        trainer.load(received)
        trainer.run()
        g = client_noise()
        return {name: self._private(name, array, g) for name, array in trainer.difference(received).items()}, memory

    def merge(self, state: ModelState, updates: Sequence[Update]) -> ModelState:
        """Add the weighted mean of updates; of a table, row by row."""
        return {"model": moved_by_rows(state["model"], updates)}

    def _private(self, name: str, update: Array, g: np.random.Generator) -> Array:
        """Return an array of the update as it is sent."""
        rows = touched(name, update)
        mean = float(np.abs(update[rows].mean(dtype=np.float64))) if rows.any() else 0.0
        return noised(np.clip(update, -self.clip, self.clip), rows, self.noise * mean, g)
