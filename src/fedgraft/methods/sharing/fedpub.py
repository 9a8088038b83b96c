"""Fed-PUB: each client gets a mean of its own, of models that answer alike, and masks what it does not need of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts import NonNegativeFloat, NonNegativeInt, PersonalSharing, TaskFacts, Trainer, Update
from fedgraft.contracts.abilities.tasks import SyntheticTask
from fedgraft.errors import require
from fedgraft.methods.one_model import moved
from fedgraft.nn.proximal import pull_towards
from fedgraft.wire.layouts import Arrays, Layout, Spec, Tree

RESPONSE = "response"
"""Name by which what a client's model makes of the random graph travels."""
MASK = ".mask"
"""Ends of the names of a mask, and of the weights that it is of."""
EVERYBODY = 0
"""The group of the clients that have no model of their own yet; client k's own is k + 1."""


class State(TypedDict):
    """The mean of all models, and each client's own, None before its first."""

    model: Arrays
    personal: list[Arrays | None]


@dataclass(frozen=True)
class FedPUB(
    PersonalSharing[State],
):
    """Fed-PUB: each client gets a mean of its own, of models that answer alike, and masks what it does not need of it.

    The models of a round's clients are compared by their functional embeddings: h_i is what client i's makes of a
    random graph, in the mean over its nodes. Client i is sent

        theta_i' = sum_j a_ij theta_j,    a_ij = exp(tau cos(h_i, h_j)) / sum_k exp(tau cos(h_i, h_k))

    It trains theta and a mask mu of its own, by which the weights of linear layers are multiplied, to minimise

        its loss(theta * mu) + l1 ||mu||_1 + l2 ||theta - theta_i'||^2

    and sends what has come of theta, and h_i. The mask begins as ones and never leaves the client. It is scored, and
    answers, with theta * mu as it trained them last.

    Source: Baek et al., "Personalized Subgraph Federated Learning", ICML 2023, section 3; the authors' code
        (JinheonBaek/FED-PUB; models, layers and parser read, not copied).
    Differs:
        - Clients pass the random graph through their models, as in the code; in the paper the server does. The graph is
          drawn from the run's seed at both ends, so that it does not travel, and h_i is of the last hidden layer behind
          its ReLU; the code's is before it.
        - The code takes both penalties of copies without a gradient, so that there they do nothing. As gradients its
          1e-3 of the sum of a mask is far above what the losses say, and under Adam takes every mask to 0. So
          `sparsity` is a hundredth of that, and `pull` fifty times its 1e-3, by validation (Cora, CiteSeer).
        - Weight decay draws masks to 1, where they do nothing; in the code to 0. Of 5e-4, OpenFGL's, a model does not
          learn where features are small (PubMed) if it draws them to 0; the authors' is 1e-6.
        - What is below `threshold` in a mask becomes 0 once a round, behind its last step; in the code it counts as 0
          in answers alone.
        - A client that has not been in a cohort yet gets the mean of all models, weighted by examples; the others what
          they were sent last, until they are in one again (both as the code).

    Args:
        tau: how sharply a client prefers models that answer as its own, >= 0; 10 (code's default; its script for Cora
            has 3). 0 is a plain mean.
        sparsity: l1, >= 0.
        pull: l2, >= 0.
        threshold: below which an entry of a mask becomes 0, >= 0; 1e-3 (code).
        width: of h_i; 0 = as the task has it.

    State:
        model: the mean of all models, weighted by examples; personal: list [N] of arrays or None.
    Memory:
        model: theta as trained last. Masks are among the client's private parameters.
    Needs: a task with masks in its model that draws a random graph: `node`.
    Cost: a model of its own down and its difference up, per selected client, and `width` numbers. At the server a model
        for each client.
    """

    needs: ClassVar[tuple[type[Any], ...]] = (SyntheticTask,)

    parts: ClassVar[frozenset[str]] = frozenset({"mask"})

    tau: NonNegativeFloat = 10.0
    sparsity: NonNegativeFloat = 1e-5
    pull: NonNegativeFloat = 0.05
    threshold: NonNegativeFloat = 1e-3
    width: NonNegativeInt = 0

    def fitted(self, facts: TaskFacts) -> Self:
        """With the width of a response."""
        width = facts.response_width
        require(self.width in (0, width), "FedPUB.width", f"{width} as the model has, or 0", self.width)
        return replace(self, width=width)

    def shares(self, name: str) -> bool:
        """Return whether it is no mask."""
        return not name.endswith(MASK)

    def init(self, model: Arrays, clients: int) -> State:
        """The drawn model for everybody."""
        return {"model": model, "personal": [None] * clients}

    def group(self, state: State, client: int) -> int:
        """Return the client's own group, once it has a model of its own."""
        return EVERYBODY if state["personal"][client] is None else client + 1

    def model(self, state: State, group: int = EVERYBODY) -> Arrays:
        """Return the mean of all models, or a client's own."""
        own = state["personal"][group - 1] if group != EVERYBODY else None
        return state["model"] if own is None else own

    def uploads(self, model: Layout) -> Layout:
        """The update, and the response."""
        return Layout((*model, Spec(RESPONSE, "float32", (self.width,), "update")))

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Train weights and masks; send the difference of the weights, and what the model makes of the random graph."""
        pull = pull_towards(received, 2 * self.pull)

        def correct(parameters: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> None:
            pull(parameters, gradients)
            for name, gradient in gradients.items():
                if name.endswith(MASK):
                    gradient.add_(torch.sign(1 + parameters[name].detach()), alpha=self.sparsity)

        trainer.load(received)
        trainer.run(correct_gradient=correct)
        trained = trainer.read()
        masks = {name: self._cut(array) for name, array in trained.items() if name.endswith(MASK)}
        if masks:
            trainer.load(masks)
        own = {name: trained[name] for name in received}
        return {**{name: own[name] - received[name] for name in own}, RESPONSE: trainer.respond()}, {"model": dict(own)}

    def personalise(self, received: Arrays, memory: Tree) -> Arrays:
        """Return theta as trained last; of a client that has not trained yet, what it received."""
        return received if memory is None else memory["model"]  # type: ignore[index, call-overload, return-value]

    def merge(self, state: State, updates: Sequence[Update]) -> State:
        """The mean of all models, and one for each client, by how alike their responses are."""
        names, total = list(state["model"]), sum(update.weight for update in updates)
        models = []
        for update in updates:
            base = self.model(state, self.group(state, update.client))
            models.append({name: base[name] + update.arrays[name] for name in names})
        shares = softmax(self.tau * cosines(np.stack([update.arrays[RESPONSE] for update in updates])))
        personal = list(state["personal"])
        for update, row in zip(updates, shares, strict=True):
            personal[update.client] = mean(models, row)
        weights = np.array([update.weight for update in updates])
        return {"model": mean(models, weights / total) if total > 0 else state["model"], "personal": personal}

    def _cut(self, mask: NDArray[np.float32]) -> NDArray[np.float32]:
        """A mask, less 1 as the model has it, with 0 for what is below the threshold."""
        return np.where(np.abs(1 + mask) < self.threshold, np.float32(-1), mask)


def cosines(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the cosines of all pairs of rows, float64 [n, n]; 0 with a row of zeros."""
    doubles = rows.astype(np.float64)
    norms = np.linalg.norm(doubles, axis=1, keepdims=True)
    units = np.divide(doubles, norms, out=np.zeros_like(doubles), where=norms > 0)
    return np.asarray(units @ units.T)


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each row's softmax, float64 [n, n]."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def mean(models: Sequence[Arrays], weights: NDArray[np.float64]) -> Arrays:
    """Return the sum of models, each times its weight; weights are float64 [models] and sum to 1."""
    zeros = {name: np.zeros_like(array) for name, array in models[0].items()}
    return moved(zeros, [Update(k, float(w), m) for k, (m, w) in enumerate(zip(models, weights, strict=True))])
