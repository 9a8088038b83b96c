"""Controls: what the server and each client know of gradients, so that local steps are corrected by them."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from fedgraft.contracts import MovableSharing, Trainer, Update
from fedgraft.methods.one_model import moved
from fedgraft.nn.proximal import Pull
from fedgraft.wire.layouts import Arrays, Layout, Spec

PREFIX = "control:"
"""Names of the server's control begin like this where it travels."""


class ControlState(TypedDict):
    """The global model, the server's control c under the names it travels by, and how many clients there are."""

    model: Arrays
    control: Arrays
    clients: int


class Controlled(MovableSharing[ControlState]):
    """One model and one control, both moved by what clients upload: all but a client's round."""

    def init(self, model: Arrays, clients: int) -> ControlState:
        """The drawn model, and a control of zeros."""
        control = {PREFIX + name: np.zeros_like(value) for name, value in model.items()}
        return {"model": model, "control": control, "clients": clients}

    def model(self, state: ControlState, group: int = 0) -> Arrays:
        """The global model and the control."""
        return {**state["model"], **state["control"]}

    def downloads(self, model: Layout) -> Layout:
        """Each array, and its control."""
        return Layout((*model, *(Spec(PREFIX + spec.name, spec.dtype, spec.shape, "update") for spec in model)))

    def uploads(self, model: Layout) -> Layout:
        """Each array's difference, and its control's."""
        return self.downloads(model)

    def merge(self, state: ControlState, updates: Sequence[Update]) -> ControlState:
        """Move the model by the mean of differences, the control by that of those who took part among all."""
        return {
            "model": moved(state["model"], updates, self.pace),
            "control": moved(state["control"], updates, len(updates) / state["clients"]),
            "clients": state["clients"],
        }

    def with_model(self, state: ControlState, group: int, model: Arrays) -> ControlState:
        """Put a model in place of the global one; the control stays."""
        return {**state, "model": model}

    @property
    def pace(self) -> float:
        """How far the model goes along the mean of differences; 1 = all the way."""
        return 1.0


def parted(received: Arrays) -> tuple[Arrays, Arrays]:
    """Return the model and the server's control out of what was received, both under the model's names."""
    start = {name: array for name, array in received.items() if not name.startswith(PREFIX)}
    return start, {name: received[PREFIX + name] for name in start}


def zeros(arrays: Arrays) -> Arrays:
    """Return zeros of the same shapes."""
    return {name: np.zeros_like(array) for name, array in arrays.items()}


def change(control: Arrays, own: Arrays) -> Arrays:
    """Return by how much a client's control has changed, under the names that it travels by."""
    return {PREFIX + name: control[name] - own[name] for name in own}


def corrected(
    trainer: Trainer, start: Arrays, server: Arrays, own: Arrays, control: str, pull: Pull | None = None
) -> tuple[Arrays, Arrays]:
    """Train from `start`, each step along g - c_i + c; return the update and the client's new control.

    g is the gradient of the loss, changed by `pull` if there is one. After K steps of rate eta from x to y

        "update":       c_i' = (x - y) / (K eta)
        "difference":   c_i' = c_i - c + (x - y) / (K eta)
        "gradient":     c_i' = mean of the round's g, of those since its last pause for other clients' rows

    `server` and `own` are c and c_i, under the model's names; `control` names the formula. Without a step c_i stays.
    """
    offset = {name: torch.from_numpy(server[name] - own[name]) for name in start}
    sums: dict[str, Tensor] = {}
    seen = 0  # fewer than steps where the round was paused: what a hook has added up by then is gone

    def correct(parameters: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> None:
        nonlocal seen
        seen += 1
        if pull is not None:
            pull(parameters, gradients)
        for name, added in offset.items():
            if name not in gradients:  # running statistics have none
                continue
            if control == "gradient":
                sums[name] = sums[name] + gradients[name] if name in sums else gradients[name].clone()
            gradients[name].add_(added.to(gradients[name].device))

    before = trainer.steps
    trainer.load(start)
    trainer.run(correct_gradient=correct)
    trained, steps = trainer.read(list(start)), trainer.steps - before
    update = {name: trained[name] - start[name] for name in start}
    if not steps:
        return update, own
    if control == "gradient":
        return update, {**zeros(start), **{name: (sums[name] / seen).numpy(force=True) for name in sums}}
    scale = np.float32(1.0 / (steps * trainer.learning_rate))
    if control == "update":
        return update, {name: -scale * update[name] for name in start}
    return update, {name: own[name] - server[name] - scale * update[name] for name in start}
