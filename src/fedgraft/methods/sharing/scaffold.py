"""Scaffold: FedAvg whose clients correct each step by how far their gradients are off everybody's."""

from dataclasses import dataclass
from typing import Annotated

from fedgraft.contracts import Trainer
from fedgraft.contracts.ranges import OneOf, PositiveFloat
from fedgraft.methods.controls import Controlled, change, corrected, parted, zeros
from fedgraft.wire.layouts import Arrays, Tree

CONTROLS = ("difference", "gradient")


@dataclass(frozen=True)
class Scaffold(Controlled):
    """Scaffold: FedAvg whose clients correct each step by how far their gradients are off everybody's.

    The server has a control c, the mean gradient of all clients, and every client i its own c_i; both are 0 at first.
    A local step follows g - c_i + c. After K steps of rate eta from x to y

        c_i' = c_i - c + (x - y) / (K eta),     c += |S| / N mean over S of (c_i' - c_i),     x += rate mean of (y - x)

    Source: Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020,
        Algorithm 1 and Eq. (4), option II.
    Differs:
        - Means are weighted by examples where the paper's are plain, so that c is the gradient of the objective that
          the model is averaged for; if not everybody takes part, as good as the cohort's weights are.
        - The correction enters the gradient before the optimiser. With plain SGD the formula makes c_i' the mean of the
          round's gradients g. With Adam (or momentum, clipping) (x - y) / (K eta) is of another scale than gradients,
          near 1 wherever they agree, and so are the corrections. `control="gradient"` takes the mean of g itself, the
          same as the formula where that is meant to be used, and a gradient with every optimiser. If the round
          pauses for other clients' rows, it is the mean of those after the last pause.
        - c at the server is made of what it decodes, c_i of what a client computed: a lossy codec, or an upload that is
          lost, leaves the difference in c.

    Args:
        control: "difference" (the formula) or "gradient", see above.
        rate: the server's, > 0; 1 (the paper's experiments).

    State:
        model: the model's arrays; control: arrays of the same shapes, "control:" before their names; clients: int.
    Memory:
        control: c_i, arrays as the model.
    Needs: nothing.
    Cost: twice the model down (model and c) and twice up (both differences), per selected client.
    """

    control: Annotated[str, OneOf(CONTROLS)] = "difference"
    rate: PositiveFloat = 1.0

    @property
    def pace(self) -> float:
        """The server's rate."""
        return self.rate

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Steps along g - c_i + c; the differences of model and control."""
        start, server = parted(received)
        own: Arrays = memory["control"] if isinstance(memory, dict) else zeros(start)  # type: ignore[assignment]
        update, control = corrected(trainer, start, server, own, self.control)
        return {**update, **change(control, own)}, {"control": dict(control)}
