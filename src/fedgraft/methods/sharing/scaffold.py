"""Scaffold: FedAvg whose clients correct each step by how far their gradients are off everybody's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from fedgraft.contracts import ExtendedSharing, MovableSharing, Trainer, Update
from fedgraft.errors import require, require_one_of
from fedgraft.methods.one_model import moved
from fedgraft.wire.layouts import Arrays, Layout, Spec, Tree

CONTROLS = ("difference", "gradient")
_PREFIX = "control:"


class State(TypedDict):
    """The global model, the server's control c under the names it travels by, and how many clients there are."""

    model: Arrays
    control: Arrays
    clients: int


@dataclass(frozen=True)
class Scaffold(ExtendedSharing[State], MovableSharing[State]):
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
          same as the formula where that is meant to be used, and a gradient with every optimiser.
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

    control: str = "difference"
    rate: float = 1.0

    def __post_init__(self) -> None:
        require_one_of("Scaffold.control", self.control, CONTROLS)
        require(self.rate > 0, "Scaffold.rate", "> 0", self.rate)

    def init(self, model: Arrays, clients: int) -> State:
        """The drawn model, and a control of zeros."""
        control = {_PREFIX + name: np.zeros_like(value) for name, value in model.items()}
        return {"model": model, "control": control, "clients": clients}

    def model(self, state: State, group: int = 0) -> Arrays:
        """The global model and the control."""
        return {**state["model"], **state["control"]}

    def downloads(self, model: Layout) -> Layout:
        """Each array, and its control."""
        return Layout((*model, *(Spec(_PREFIX + spec.name, spec.dtype, spec.shape) for spec in model)))

    def uploads(self, model: Layout) -> Layout:
        """Each array's difference, and its control's."""
        return self.downloads(model)

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Steps along g - c_i + c; the differences of model and control."""
        start = {name: array for name, array in received.items() if not name.startswith(_PREFIX)}
        server = {name: received[_PREFIX + name] for name in start}
        own: Arrays = memory["control"] if isinstance(memory, dict) else _zeros(start)  # type: ignore[assignment]
        offset = {name: torch.from_numpy(server[name] - own[name]) for name in start}
        sums: dict[str, Tensor] = {}

        def correct(parameters: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> None:
            for name, added in offset.items():
                if name not in gradients:  # running statistics have none
                    continue
                if self.control == "gradient":
                    sums[name] = sums[name] + gradients[name] if name in sums else gradients[name].clone()
                gradients[name].add_(added.to(gradients[name].device))

        before = trainer.steps
        trainer.load(start)
        trainer.run(correct_gradient=correct)
        trained, steps = trainer.read(list(start)), trainer.steps - before
        update = {name: trained[name] - start[name] for name in start}
        if not steps:
            control = own
        elif self.control == "gradient":
            control = {**_zeros(start), **{name: (sums[name] / steps).numpy(force=True) for name in sums}}
        else:
            scale = np.float32(1.0 / (steps * trainer.learning_rate))
            control = {name: own[name] - server[name] - scale * update[name] for name in start}
        changed = {_PREFIX + name: control[name] - own[name] for name in start}
        return {**update, **changed}, {"control": dict(control)}

    def merge(self, state: State, updates: Sequence[Update]) -> State:
        """Move the model by the mean of differences, the control by that of those who took part among all."""
        return {
            "model": moved(state["model"], updates, self.rate),
            "control": moved(state["control"], updates, len(updates) / state["clients"]),
            "clients": state["clients"],
        }

    def with_model(self, state: State, group: int, model: Arrays) -> State:
        """Put a model in place of the global one; the control stays."""
        return {**state, "model": model}


def _zeros(arrays: Arrays) -> Arrays:
    return {name: np.zeros_like(array) for name, array in arrays.items()}
