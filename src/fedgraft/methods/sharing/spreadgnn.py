"""SpreadGNN: no server; neighbours average their models and learn how their tasks are related."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts import Correction, MovableSharing, PersonalSharing, Trainer, Update
from fedgraft.contracts.ranges import NonNegativeFloat, OneOf, PositiveInt, Proportion
from fedgraft.errors import ClientError
from fedgraft.wire.layouts import Arrays, Layout, Spec, Tree

TOPOLOGIES = ("complete", "ring")
RELATIONS = ("inverse", "direct")
HEAD: Final = "head.outer.weight"
"""The last weight of the part "head", [classes, hidden]: one row a task, in the paper's sense."""

_HEADS: Final = "head."
_OWN: Final = "head:own"
_NEIGHBOURS: Final = "head:neighbours"
_FLOOR: Final = 1e-6  # of the largest singular value (ours): below it rows are dependent, and there is no inverse


class State(TypedDict):
    """By client: its model, and its head filled up with zeros."""

    models: list[Arrays]
    heads: NDArray[np.float32]


@dataclass(frozen=True)
class SpreadGNN(MovableSharing[State], PersonalSharing[State]):
    """SpreadGNN: no server; neighbours average their models and learn how their tasks are related.

    Every client has a model of its own. After training, it becomes the mean, weighted by examples, of its own and its
    neighbours'. Heads are never averaged: with Phi the rows of a client's head and of its neighbours', the loss has

        strength tr(Phi^T Omega^-1 Phi),     Omega = (Phi Phi^T)^(1/2) / tr (Phi Phi^T)^(1/2)

    whose gradient, 2 strength Omega^-1 Phi, moves the client's own rows. Omega is that of the present Phi at each step.

    Source: He et al., "SpreadGNN: Decentralized Multi-Task Federated Learning for Graph Neural Networks on Molecular
        Data", AAAI 2022 (arXiv:2106.02743), its objective, its update of Omega and its DPA-SGD; the authors' code
        (FedML-AI/SpreadGNN, SpreadGNN_Worker_molecule.py; read, not copied).
    Differs:
        - A server relays: it averages in its clients' stead and sends each its result, so that the bytes counted are
          those of one model up and one down, not one per neighbour.
        - Omega is not kept between rounds; the code starts it from ones and updates it behind each step. Where Phi
          Phi^T has no inverse, that of its range is taken.
        - The code has Omega where the paper has its inverse (`relation="direct"`), and cuts the gradient off for a
          client's own rows too, so that the term moves nothing.
        - As in the code there is no term before a neighbour's head is known.
        - A client that is not selected, or fails, keeps its model and gives nothing to its neighbours in that round;
          they still know its last head.
        - Heads travel filled up with zeros, which change no term. Of neighbours with more rows than `head_width` the
          triangular factor of their rows travels: the term depends on no more than sum Phi_j^T Phi_j.

    Args:
        topology: "complete", everybody is everybody's neighbour (the code's example runs: 8 of 8), or "ring", the
            client before and the one behind.
        strength: of the term, >= 0; 0.01 (code).
        decay: its factor per round of a client, in [0, 1]; 1 (code).
        relation: "inverse" (paper) or "direct" (code).
        head_rows: most rows of a head, which is classes, >= 1; 16 (ours: the 16 sets have at most 15).
        head_width: largest width of a head's last layer, >= 1; 64 (that of the models).

    State:
        models: list [N] of the model's arrays; heads: float32 [N, head_rows, head_width].
    Memory:
        rounds: int, rounds trained.
    Needs: a model with "head", whose last weight is "head.outer.weight" [classes, hidden].
    Cost: a model down and its difference up, per selected client, and 4 head_rows head_width bytes up, 4 head_width^2
        down ("ring": 8 head_rows head_width if less).
    """

    parts: ClassVar[frozenset[str]] = frozenset({"head"})

    topology: Annotated[str, OneOf(TOPOLOGIES)] = "complete"
    strength: NonNegativeFloat = 0.01
    decay: Proportion = 1.0
    relation: Annotated[str, OneOf(RELATIONS)] = "inverse"
    head_rows: PositiveInt = 16
    head_width: PositiveInt = 64

    def shares(self, name: str) -> bool:
        """Return all but the head."""
        return not name.startswith(_HEADS)

    def init(self, model: Arrays, clients: int) -> State:
        """The drawn model for everybody; no head is known."""
        heads = np.zeros((clients, self.head_rows, self.head_width), dtype=np.float32)
        return {"models": [model] * clients, "heads": heads}

    def group(self, state: State, client: int) -> int:
        """Return the client itself: each is a group."""
        return client

    def model(self, state: State, group: int = 0) -> Arrays:
        """The client's model, and what it needs to know of its neighbours' heads."""
        around = self._neighbours(group, len(state["heads"]))
        rows = state["heads"][around].reshape(-1, self.head_width)
        rows = rows[rows.any(axis=1)]
        known = np.zeros((self._rows_sent, self.head_width), dtype=np.float32)
        if len(rows) > len(known):
            known[:] = np.asarray(np.linalg.qr(rows.astype(np.float64), mode="r"))
        else:
            known[: len(rows)] = rows
        return {**state["models"][group], _NEIGHBOURS: known}

    def downloads(self, model: Layout) -> Layout:
        """The model, and neighbours' heads."""
        return Layout((*model, Spec(_NEIGHBOURS, "float32", (self._rows_sent, self.head_width))))

    def uploads(self, model: Layout) -> Layout:
        """The model's difference, and the head as it is."""
        return Layout((*model, Spec(_OWN, "float32", (self.head_rows, self.head_width), "update")))

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """The common round with the term that relates heads."""
        start = {name: array for name, array in received.items() if name != _NEIGHBOURS}
        self._filled_up(trainer.read([HEAD])[HEAD])  # a head that cannot travel is told before it is trained
        rounds = int(memory["rounds"]) if isinstance(memory, dict) else 0  # type: ignore[arg-type]
        strength, known = self.strength * self.decay**rounds, received[_NEIGHBOURS]
        trainer.load(start)
        trainer.run(correct_gradient=self._relate(known, strength) if strength and known.any() else None)
        trained = trainer.read([*start, HEAD])
        update = {name: trained[name] - start[name] for name in start}
        return {**update, _OWN: self._filled_up(trained[HEAD])}, {"rounds": rounds + 1}

    def merge(self, state: State, updates: Sequence[Update]) -> State:
        """Everybody who answered becomes the mean of itself and of its neighbours who did."""
        models, heads = list(state["models"]), state["heads"].copy()
        trained = {u.client: _sum(state["models"][u.client], u.arrays) for u in updates}
        weights = {update.client: update.weight for update in updates}
        for update in updates:
            client = update.client
            heads[client] = update.arrays[_OWN]
            around = [other for other in self._neighbours(client, len(models)) if other in weights]
            near = {other: weights[other] for other in sorted({client, *around})}
            total = sum(near.values())
            if total > 0:
                parts = [(weight / total, trained[other]) for other, weight in near.items()]
                models[client] = _mean(state["models"][client], parts)
        return {"models": models, "heads": heads}

    def with_model(self, state: State, group: int, model: Arrays) -> State:
        """Put a model in place of a client's."""
        return {**state, "models": [*state["models"][:group], model, *state["models"][group + 1 :]]}

    def _neighbours(self, client: int, clients: int) -> list[int]:
        """Return a client's neighbours, ascending, without itself."""
        near = range(clients) if self.topology == "complete" else ((client + step) % clients for step in (-1, 1))
        return sorted(set(near) - {client})

    @property
    def _rows_sent(self) -> int:
        """So many rows tell all there is to tell of neighbours."""
        return min(2 * self.head_rows, self.head_width) if self.topology == "ring" else self.head_width

    def _filled_up(self, head: NDArray[np.float32]) -> NDArray[np.float32]:
        rows, width = head.shape
        if rows > self.head_rows or width > self.head_width:
            raise ClientError(
                f"a head of {rows} classes and width {width} does not fit SpreadGNN.head_rows = {self.head_rows} and "
                f"head_width = {self.head_width}"
            )
        filled = np.zeros((self.head_rows, self.head_width), dtype=np.float32)
        filled[:rows, :width] = head
        return filled

    def _relate(self, neighbours: NDArray[np.float32], strength: float) -> Correction:
        known = torch.from_numpy(neighbours[neighbours.any(axis=1)].astype(np.float64))

        def relate(parameters: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> None:
            own = parameters[HEAD].detach().cpu().double()
            phi = torch.cat([own, known[:, : own.shape[1]]])
            related = self._related(phi)[: len(own)].to(gradients[HEAD])
            gradients[HEAD].add_(related, alpha=2.0 * strength)

        return relate

    def _related(self, phi: Tensor) -> Tensor:
        """Omega^-1 Phi, or Omega Phi. With Phi = U S V^T, Omega is U S U^T / tr S."""
        left, values, right = torch.linalg.svd(phi, full_matrices=False)
        if self.relation == "direct":
            related: Tensor = (left * values**2 / values.sum()) @ right
        else:
            kept = values > _FLOOR * values[0]
            related = (left[:, kept] * values.sum()) @ right[kept]
        return related


def _sum(model: Arrays, update: Arrays) -> Arrays:
    return {name: value + update[name].astype(np.float64) for name, value in model.items()}


def _mean(model: Arrays, parts: Sequence[tuple[float, Arrays]]) -> Arrays:
    """The weighted mean of `parts`, as what `model` moves by: equal models so move as one model would."""
    after = {}
    for name, value in model.items():
        total = np.zeros(value.shape, dtype=np.float64)
        for weight, arrays in parts:
            total += weight * (arrays[name] - value)
        after[name] = (value + total).astype(value.dtype)
    return after
