"""FedGNN: tables of users and items travel, clipped, noised and hidden among pseudo items."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedgraft.contracts import Indices, NonNegativeFloat, NonNegativeInt, PositiveFloat, Trainer, Update
from fedgraft.methods.one_model import ModelState, OneModel
from fedgraft.methods.private_rows import ITEMS, client_noise, clipped, moved_by_rows, noised, touched
from fedgraft.wire.layouts import Arrays, Tree


@dataclass(frozen=True)
class FedGNN(OneModel):
    """FedGNN: tables of users and items travel, clipped, noised and hidden among pseudo items.

    A client trains the model with its tables. It then fills rows of items that it does not have with draws from the
    normal distribution of the rows that it has, cuts every number of its update to [-clip, clip] and adds Laplace noise
    to each. So the server sees neither which items are real nor any number as it was: a number of one upload is
    (2 clip / noise)-differentially private.

    Source: Wu, Wu, Cao, Huang, Xie, "FedGNN: Federated Graph Neural Network for Privacy-Preserving Recommendation",
        2021 (arXiv:2102.04925), sections 3.3 and 3.4; as "FedPerGNN", Nature Communications 2022; the authors' code
        (wuch15/FedPerGNN; read, not copied), which noises weights of one central training in place of a protocol.
    Differs:
        - Clients are shops with many users, in the paper single users. So a client knows who else rated an item, and no
          third party has to match encrypted ids.
        - What is clipped and noised is the update of a round of local steps, not one gradient.
        - A row is the mean over those who sent it: with as few clients as shops nobody else would move it.
        - Pseudo items are drawn once: items that change from round to round would tell which are real.
        - The tables are sent whole to the clients, since who asks for rows tells which items it has. Upwards untouched
          rows are zeros; a codec such as `sparse` with a tiny threshold does not send them.

    Args:
        clip: largest magnitude of a number, > 0; 0.1 (paper).
        noise: scale of the Laplace noise, >= 0; 0.2 (paper); 0 adds none.
        pseudo_items: rows of items to fill, >= 0; 1000 (paper, for a client of one user).

    State:
        model: the model's arrays.
    Memory:
        pseudo: int64 [k], the pseudo items.
    Needs: a model with "embeddings", and local steps that leave other rows as they are: no weight decay.
    Cost: the model down and its difference up, per selected client.
    """

    merges_means: ClassVar[bool] = False  # of a table, row by row, by those that touched the row

    parts: ClassVar[frozenset[str]] = frozenset({"embeddings"})

    clip: PositiveFloat = 0.1
    noise: NonNegativeFloat = 0.2
    pseudo_items: NonNegativeInt = 1000

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Train; the update with pseudo rows, clipped and noised."""
        trainer.load(received)
        trainer.run()
        update, g = trainer.difference(received), client_noise()
        if ITEMS in update:
            pseudo = self._pseudo(memory, update, g)
            memory = {"pseudo": pseudo}
            update = {**update, ITEMS: _filled(update[ITEMS], pseudo, g)}
        rows = {name: touched(name, array) for name, array in update.items()}
        update = clipped(update, self.clip)
        return {name: noised(array, rows[name], self.noise, g) for name, array in update.items()}, memory

    def merge(self, state: ModelState, updates: Sequence[Update]) -> ModelState:
        """Add the weighted mean of updates; of a table, row by row."""
        return {"model": moved_by_rows(state["model"], updates)}

    def _pseudo(self, memory: Any, update: Arrays, g: np.random.Generator) -> Indices:
        """The client's pseudo items; drawn in its first round among those that it did not touch."""
        if memory is not None:
            known: Indices = memory["pseudo"]
            return known
        free = np.flatnonzero(~touched(ITEMS, update[ITEMS]))
        return np.sort(g.choice(free, min(self.pseudo_items, len(free)), replace=False))


def _filled(table: Any, pseudo: Indices, g: np.random.Generator) -> Any:
    """Return the table with draws in those pseudo rows that are zero, normal with mean and covariance of the others."""
    real = touched(ITEMS, table)
    rows = pseudo[~real[pseudo]]
    if not len(rows) or not real.any():
        return table
    mean = table[real].mean(axis=0, dtype=np.float64)
    covariance = np.atleast_2d(np.cov(table[real].astype(np.float64), rowvar=False, bias=True))
    after = table.copy()
    after[rows] = g.multivariate_normal(mean, covariance, len(rows), method="eigh").astype(table.dtype)
    return after
