"""FedRep: private heads that are trained first, then the shared body below them."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedgraft.contracts import NonNegativeInt, Trainer
from fedgraft.methods.one_model import SharedBase
from fedgraft.wire.layouts import Arrays, Tree


@dataclass(frozen=True)
class FedRep(SharedBase):
    """FedRep: private heads that are trained first, then the shared body below them.

    A selected client first fits its head to the body that it received, for many epochs, the body frozen. Then it trains
    the body with the head frozen, and sends the body's difference alone. The body is averaged; heads stay as their
    clients left them.

    Source: Collins et al., "Exploiting Shared Representations for Personalized Federated Learning", ICML 2021,
        Algorithm 1 and section 5.
    Differs: updates of the body are weighted by examples (the paper takes plain means).
        What the task says can never travel (on graphs: first layer, normalisations and head) is
        trained with the head. Running statistics of the body, if there are any, begin the second part as received.

    Args:
        private: the head: parameters whose names begin like one of these. By default what models here end with:
            "convolutions.1." and "head." (task `graph`: the last of two convolutions) and "out." (task `rating`). With
            convolutions of another depth name the last, such as "convolutions.4."; names that no parameter begins with
            do nothing. Where nothing is private this is FedAvg.
        head_epochs: epochs on the head per round, >= 0; 10 (paper). 0 = as many as on the body, `training.epochs`,
            which are 1 or 5 in the paper.

    State:
        model: the body's arrays. Heads are in their client's memory.
    Needs: something left to share.
    Cost: the body down and its difference up, per selected client.
    """

    head_epochs: NonNegativeInt = 10

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Fit the head, then the body; upload the body's difference."""
        head = [name for name in trainer.read() if name not in received]
        trainer.load(received)
        if head:
            trainer.run(epochs=self.head_epochs or None, frozen=list(received))
            trainer.load(received)  # running statistics are never frozen
        trainer.run(frozen=head)
        return trainer.difference(received), memory

    def runs(self, epochs: int) -> Sequence[int]:
        """Return those of the head, then of the body."""
        return (self.head_epochs or epochs, epochs)
