"""Moon: FedAvg whose clients' embeddings are drawn to the global model's and away from their own last ones."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, softplus

from fedgraft.contracts import Indices, NonNegativeFloat, ObservedTask, PositiveFloat, Trainer
from fedgraft.methods.one_model import OneModel
from fedgraft.wire.layouts import Arrays, Tree


@dataclass(frozen=True)
class Moon(OneModel):
    """Moon: FedAvg whose clients' embeddings are drawn to the global model's and away from their own last ones.

    With z the last hidden layer over an example, z_glob what the received model makes of it, and z_prev what the
    client's model at the end of its last round makes of it, every step's loss gets mu times the mean over its examples
    of

        -log( exp(sim(z, z_glob) / tau) / (exp(sim(z, z_glob) / tau) + exp(sim(z, z_prev) / tau)) )

    where sim is the cosine. In a client's first round the two are the same, and the term has no gradient.

    Source: Li, He and Song, "Model-Contrastive Federated Learning", CVPR 2021, Eq. (3), Algorithm 1.
    Differs: z is the task's last hidden layer; the paper adds a projection head of two layers for it. What the other
        two models make of examples is computed once a round, as in a prediction (without dropout).

    Args:
        mu: weight, >= 0; of the paper's 0.1, 1, 5 and 10, of which each of its data sets has another as the best.
        tau: temperature, > 0; 0.5 (the paper).

    State:
        model: the model's arrays.
    Memory:
        model: the client's model at the end of its last round.
    Needs: a task that tells its hidden layer.
    Cost: the model down and its difference up, per selected client.
    """

    needs: ClassVar[tuple[type[Any], ...]] = (ObservedTask,)

    mu: NonNegativeFloat = 1.0
    tau: PositiveFloat = 0.5

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Steps with the contrastive term; the difference, and the model as it is now."""
        before = None
        if isinstance(memory, dict) and self.mu:
            trainer.load(memory["model"])  # type: ignore[arg-type]
            before = torch.from_numpy(trainer.observe().hidden)
        trainer.load(received)
        if before is None:
            trainer.run()
        else:
            last, now = before, torch.from_numpy(trainer.observe().hidden)

            def penalty(hidden: Tensor, examples: Indices) -> Tensor:
                towards, away = (seen[examples].to(hidden.device) for seen in (now, last))
                return self.mu * contrast(hidden, towards, away, self.tau)

            trainer.run(hidden_penalty=penalty)
        return trainer.difference(received), {"model": dict(trainer.read(list(received)))}


def contrast(hidden: Tensor, towards: Tensor, away: Tensor, tau: float) -> Tensor:
    """Return the mean of Eq. (3) over rows, a scalar; all are [examples, width]."""
    return softplus((cosine_similarity(hidden, away) - cosine_similarity(hidden, towards)) / tau).mean()
