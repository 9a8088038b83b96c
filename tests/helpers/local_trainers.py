"""Local trainers of toy lines."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from fedgraft.contracts import randomness
from fedgraft.engine.client.local_trainer import LocalTrainer
from fedgraft.engine.training import Optimizer, Training
from fedgraft.methods.samplers.all import All
from fedgraft.nn.flat_model import FlatModel
from helpers.toy import Line, Points
from helpers.toy_runs import toy

TWO_POINTS = Points(np.array([[1], [2]], np.float32), np.array([2, 4], np.float32), np.zeros(2, int))
"""y = 2 x; from w = b = 0 the losses are 4 and 16, and the gradient of their mean is (-10, -6)."""


def trainer(data=TWO_POINTS, sampler=None, task=None, model=None, received=None, moments=(), **options):
    training = Training(**{"optimizer": "sgd", "learning_rate": 0.1, "schedule": "constant", **options})
    plan = replace(toy().plan, task=task or Line(width=1), sampler=sampler or All(), training=training)
    flat = FlatModel(model or plan.task.model(torch.Generator()))
    flat.load({name: np.zeros_like(value) for name, value in flat.initial.items()})
    return LocalTrainer(
        plan=plan,
        flat=flat,
        optimizer=Optimizer(training, flat),
        data=data,
        sampler_state=plan.sampler.init(plan.task.examples(data)),
        g=randomness.generator(0, "train"),
        learning_rate=training.rate(0.0),
        received=received,
        moments=moments,
    )


@dataclass(frozen=True)
class ByHand(Line):
    """The same line, whose gradient is written by hand."""

    def loss_and_backward(self, model, data, draw):
        x, y = (torch.from_numpy(part[draw.examples]) for part in (data.x[:, 0], data.y))
        errors = model.weight.detach() * x + model.bias.detach() - y

        def back(shares):
            model.weight.grad.copy_((2 * errors * x * shares).sum())
            model.bias.grad.copy_((2 * errors * shares).sum())

        return errors**2, back


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.bias = nn.Parameter(torch.zeros(1))


@dataclass(frozen=True)
class Encoded(Line):
    """The same line, with w x computed once per block."""

    def blocks(self, data):
        return [np.arange(self.examples(data))]

    def encode(self, model, data, block):
        return torch.from_numpy(data.x[:, 0]) * model.weight

    def loss(self, model, data, draw, encoded):
        return (encoded[draw.examples] + model.bias - torch.from_numpy(data.y[draw.examples])) ** 2
