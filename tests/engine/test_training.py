"""The optimiser over one flat vector against torch's own, and what it remembers."""

import numpy as np
import pytest
import torch

from fedgraft.engine.training import Optimizer, Training
from fedgraft.nn.flat_model import FlatModel

OPTIONS = [
    {"optimizer": "sgd"},
    {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.1},
    {"optimizer": "adam", "second_moment": 0.99, "weight_decay": 0.1},
    {"optimizer": "adamw", "weight_decay": 0.1},
]
RATE = 0.05


def model():
    return FlatModel(torch.nn.utils.skip_init(torch.nn.Linear, 3, 2))


def gradient_of(step):
    return torch.from_numpy(np.random.default_rng(step).standard_normal(8).astype(np.float32))


def torchs_own(options, start):
    vector = start.clone().requires_grad_()
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    known = {"lr": RATE, "weight_decay": options.get("weight_decay", 0.0)}
    if options["optimizer"] == "sgd":
        known["momentum"] = options.get("momentum", 0.0)
    else:
        known["betas"] = (0.9, options.get("second_moment", 0.999))
    return vector, kinds[options["optimizer"]]([vector], fused=True, **known)


def walk(optimizer, flat, steps):
    for step in steps:
        flat.gradient.copy_(gradient_of(step))
        optimizer.step()


@pytest.mark.parametrize("options", OPTIONS)
def test_it_is_torchs_own_bit_for_bit_and_forgets_when_it_is_reset(options):
    flat = model()
    optimizer = Optimizer(Training(**options), flat)
    for _ in range(2):
        flat.vector.fill_(1.0)
        optimizer.reset(RATE)
        walk(optimizer, flat, range(5))
        expected, own = torchs_own(options, torch.ones(8))
        for step in range(5):
            expected.grad = gradient_of(step)
            own.step()
        assert torch.equal(flat.vector, expected.detach())


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("how", [("park", "unpark"), ("read", "load")])
def test_it_goes_on_where_it_was_put_aside_whatever_came_between(options, how):
    flat, straight = model(), model()
    optimizer, other = (Optimizer(Training(**options), each) for each in (flat, straight))
    for each, one in ((optimizer, flat), (other, straight)):
        one.vector.fill_(1.0)
        each.reset(RATE)
        walk(each, one, range(2))
    vector, aside = flat.vector.clone(), getattr(optimizer, how[0])()
    optimizer.reset(7 * RATE)
    walk(optimizer, flat, range(3))
    flat.vector.copy_(vector)
    optimizer.reset(RATE)
    getattr(optimizer, how[1])(aside)
    walk(optimizer, flat, range(2, 4))
    walk(other, straight, range(2, 4))
    assert torch.equal(flat.vector, straight.vector)


def test_before_the_first_step_there_is_nothing_to_remember():
    flat = model()
    optimizer = Optimizer(Training(optimizer="adam"), flat)
    optimizer.reset(RATE)
    assert (optimizer.read(), optimizer.park()) == ({}, {})
    walk(optimizer, flat, [0])
    optimizer.load({})
    assert optimizer.read() == {}
