"""Clients whose loss is 1/2 ||w - target||^2, so that a step of rate 1 goes all the way: for sharing methods."""

import numpy as np
import torch


class Quadratic:
    """A trainer (see `Trainer` of the contracts) of plain SGD on squared distances to targets.

    Args:
        targets: {parameter: where its loss is 0}.
        steps: local steps per run whose epochs are the configured number; else one an epoch.
        rate: learning rate.
        start: parameters that are not loaded but the client's own.
    """

    def __init__(self, targets, steps=1, rate=1.0, start=None):
        self.targets = {name: torch.tensor(value) for name, value in targets.items()}
        self.parameters = {
            name: torch.tensor((start or {}).get(name, np.zeros_like(value)), requires_grad=True)
            for name, value in targets.items()
        }
        self.planned, self.learning_rate, self.steps, self.collects = steps, rate, 0, True

    def load(self, arrays):
        with torch.no_grad():
            for name, array in arrays.items():
                self.parameters[name].copy_(torch.from_numpy(np.array(array)))

    def read(self, names=None):
        return {name: self.parameters[name].detach().numpy().copy() for name in names or self.parameters}

    def difference(self, start):
        return {name: array - start[name] for name, array in self.read(list(start)).items()}

    def run(self, penalty=None, correct_gradient=None, project=None, epochs=None, frozen=()):
        assert penalty is None
        moving = {name: value for name, value in self.parameters.items() if name not in frozen}
        for _ in range(self.planned if epochs is None else epochs):
            gradients = {name: (value - self.targets[name]).detach() for name, value in moving.items()}
            if correct_gradient is not None:
                correct_gradient(self.parameters, gradients)
            with torch.no_grad():
                for name, value in moving.items():
                    value -= self.learning_rate * gradients[name]
            if project is not None:
                project({name: value.detach() for name, value in self.parameters.items()})
            self.steps += 1
