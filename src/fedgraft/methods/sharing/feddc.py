"""FedDC: FedAvg whose clients learn by how much they drift from the global model, and send it along."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from torch import Tensor

from fedgraft.contracts import Trainer
from fedgraft.contracts.ranges import NonNegativeFloat, OneOf
from fedgraft.methods.controls import Controlled, change, corrected, parted, zeros
from fedgraft.nn.proximal import pull_towards
from fedgraft.wire.layouts import Arrays, Tree

CONTROLS = ("update", "difference", "gradient")


@dataclass(frozen=True)
class FedDC(Controlled):
    """FedDC: FedAvg whose clients learn by how much they drift from the global model, and send it along.

    Every client i remembers its drift h_i, at first 0. It starts from the global model w and minimises

        its loss + alpha / 2 ||theta + h_i - w||^2 + <theta, c - c_i>

    Then h_i += theta - w, and it sends theta + h_i, whose mean is the new w. c_i is what its steps of the last round
    were a gradient of, (w - theta) / (K eta) after K steps of rate eta, and c the mean of all clients' c_i; both are 0
    at first. So the first round goes twice as far as FedProx's with mu = alpha.

    Source: Gao et al., "FedDC: Federated Learning with Non-IID Data via Local Drift Decoupling and Correction", CVPR
        2022, Algorithm 1 and section 3.
    Differs:
        - Means are weighted by examples, as the paper's of models is; its mean of updates is plain.
        - The last updates g_i of the paper's third term, (g_i - g) / (K eta), are divided by K and eta of the round in
          which they were made; the same where all rounds have as many steps and one rate.
        - That term takes an update as it is, corrected steps and all, so that a correction is taken back in the next
          round. The authors' code has Scaffold's c_i - c + (w - theta) / (K eta): `control="difference"`, or
          "gradient", the mean of the gradients, where the optimiser is not plain SGD (see `Scaffold`).
        - The authors' code adds the mean drift of all clients, also of those who are not in the cohort; this is the
          algorithm as printed. It divides alpha by a client's share of examples; the paper does not.
        - What has no gradient, such as running statistics, has no drift: it is averaged.
        - A lossy codec, or an upload that is lost, leaves a difference between h_i, c_i and what the server has.

    Args:
        alpha: strength of the penalty, >= 0; 0.1, the authors' for MNIST; 0.01 for CIFAR.
        control: "update" (the paper), "difference" (the authors' code) or "gradient", see above.

    State:
        model: the model's arrays; control: arrays of the same shapes, "control:" before their names; clients: int.
    Memory:
        drift: h_i; control: c_i; arrays as the model.
    Needs: nothing.
    Cost: twice the model down (model and c) and twice up (differences of both), per selected client.
    """

    alpha: NonNegativeFloat = 0.1
    control: Annotated[str, OneOf(CONTROLS)] = "update"

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Steps with penalty and correction; the differences of model plus drift, and of the control."""
        start, server = parted(received)
        last: Any = memory if isinstance(memory, dict) else {"drift": zeros(start), "control": zeros(start)}
        drift: Arrays = last["drift"]
        own: Arrays = last["control"]
        towards = pull_towards({name: start[name] - drift[name] for name in start}, self.alpha)
        learnt: set[str] = set()

        def pull(parameters: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> None:
            learnt.update(gradients)
            towards(parameters, gradients)

        update, control = corrected(trainer, start, server, own, self.control, pull)
        drift = {name: drift[name] + update[name] if name in learnt else drift[name] for name in start}
        sent = {name: update[name] + drift[name] for name in start}
        return {**sent, **change(control, own)}, {"drift": dict(drift), "control": dict(control)}
