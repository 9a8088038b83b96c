"""Clients whose loss is 1/2 ||w - target||^2, so that a step of rate 1 goes all the way: for sharing methods."""

import numpy as np
import torch

from fedgraft.engine.client.local_trainer import Paused


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

    def respond(self):
        return np.array([value.mean() for value in self.read().values()], np.float32)

    def run(self, penalty=None, correct_gradient=None, project=None, epochs=None, frozen=()):
        assert penalty is None
        for _ in range(self.planned if epochs is None else epochs):
            self.step(correct_gradient, project, frozen)

    def step(self, correct_gradient, project, frozen):
        moving = {name: value for name, value in self.parameters.items() if name not in frozen}
        gradients = {name: (value - self.targets[name]).detach() for name, value in moving.items()}
        if correct_gradient is not None:
            correct_gradient(self.parameters, gradients)
        with torch.no_grad():
            for name, value in moving.items():
                value -= self.learning_rate * gradients[name]
        if project is not None:
            project({name: value.detach() for name, value in self.parameters.items()})
        self.steps += 1


class Interrupted(Quadratic):
    """One that is stopped before a step, as a `LocalTrainer` is that must wait for other clients' rows.

    Others then use its model, and the sharing method begins anew: a run that had ended is loaded, the one that was
    stopped goes on where it was.

    Args:
        at: the step, counted from 0 over all runs.
    """

    def __init__(self, targets, at, **options):
        super().__init__(targets, **options)
        self.at, self.stopped, self.ended, self.replays, self.parked = at, False, [], [], None

    def begin_anew(self):
        self.replays, self.ended, self.steps = self.ended, [], 0
        self.load({name: np.full_like(value, np.nan) for name, value in self.read().items()})

    def run(self, penalty=None, correct_gradient=None, project=None, epochs=None, frozen=()):
        begin, count = 0, self.planned if epochs is None else epochs
        if self.replays:
            begin = count
            arrays, self.steps = self.replays.pop(0)
            self.load(arrays)
        elif self.parked is not None:
            (arrays, self.steps), begin = self.parked
            self.parked = None
            self.load(arrays)
        for step in range(begin, count):
            if self.steps == self.at and not self.stopped:
                self.stopped, self.parked = True, ((self.read(), self.steps), step)
                raise Paused
            self.step(correct_gradient, project, frozen)
        self.ended.append((self.read(), self.steps))
