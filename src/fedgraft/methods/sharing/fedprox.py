"""FedProx: FedAvg whose clients are held near the model that they received."""

from dataclasses import dataclass

from fedgraft.contracts import NonNegativeFloat, Trainer
from fedgraft.methods.one_model import OneModel
from fedgraft.nn.proximal import pull_towards
from fedgraft.wire.layouts import Arrays, Tree


@dataclass(frozen=True)
class FedProx(OneModel):
    """FedProx: FedAvg whose clients are held near the model that they received.

    Every local step minimises the client's loss plus mu / 2 ||w - received||^2, over the parameters that are shared.
    It is FedAvg with `training.proximal`, which any other sharing method takes as well; with both, they add up.

    Source: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, Eq. (2), Algorithm 2.
    Differs: everybody trains the configured epochs; the paper also lets slow clients stop early. Updates are weighted
        by examples (the paper draws clients in proportion to them and takes plain means). The term enters as its
        gradient, mu (w - received), so that a reported loss is that of the examples alone.

    Args:
        mu: strength, >= 0; 0.01, of Li et al.'s 0.001, 0.01, 0.1 and 1 the one that GCFL's authors run on the TU sets.
            0 is FedAvg.

    State:
        model: the model's arrays.
    Needs: nothing.
    Cost: the model down and its difference up, per selected client.
    """

    mu: NonNegativeFloat = 0.01

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """The common round, pulled towards what was received."""
        trainer.load(received)
        trainer.run(correct_gradient=pull_towards(received, self.mu) if self.mu else None)
        return trainer.difference(received), memory
