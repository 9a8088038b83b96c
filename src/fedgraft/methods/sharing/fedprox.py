"""FedProx: FedAvg whose clients are held near the model that they received."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedgraft.contracts import Trainer
from fedgraft.contracts.values import Correction
from fedgraft.errors import require
from fedgraft.methods.one_model import OneModel
from fedgraft.wire.layouts import Arrays, Tree


@dataclass(frozen=True)
class FedProx(OneModel):
    """FedProx: FedAvg whose clients are held near the model that they received.

    Every local step minimises the client's loss plus mu / 2 ||w - received||^2, over the parameters that are shared.

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

    mu: float = 0.01

    def __post_init__(self) -> None:
        require(self.mu >= 0, "FedProx.mu", ">= 0", self.mu)

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """The common round, pulled towards what was received."""
        trainer.load(received)
        trainer.run(correct_gradient=self._pull(received) if self.mu else None)
        return trainer.difference(received), memory

    def _pull(self, received: Arrays) -> Correction:
        centre = {name: torch.from_numpy(np.array(array)) for name, array in received.items()}

        def pull(parameters: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> None:
            for name, there in centre.items():
                if name in gradients:  # running statistics have none
                    here = parameters[name].detach()
                    gradients[name].add_(here - there.to(here.device), alpha=self.mu)

        return pull
