"""The options of training, and the optimiser over one flat vector against torch's own."""

import math

import numpy as np
import pytest
import torch

from fedgraft import wire
from fedgraft.engine.training import Optimizer, Training
from fedgraft.errors import InputError
from fedgraft.nn.flat_model import FlatModel
from helpers.toy_runs import same

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
def test_it_goes_on_where_it_was_put_aside_whatever_came_between(options):
    flat, straight = model(), model()
    optimizer, other = (Optimizer(Training(**options), each) for each in (flat, straight))
    for each, one in ((optimizer, flat), (other, straight)):
        one.vector.fill_(1.0)
        each.reset(RATE)
        walk(each, one, range(2))
    vector, aside = flat.vector.clone(), optimizer.park()
    optimizer.reset(7 * RATE)
    walk(optimizer, flat, range(3))
    flat.vector.copy_(vector)
    optimizer.reset(RATE)
    optimizer.unpark(aside)
    walk(optimizer, flat, range(2, 4))
    walk(other, straight, range(2, 4))
    assert torch.equal(flat.vector, straight.vector)


@pytest.mark.parametrize("options", OPTIONS)
def test_it_goes_on_with_moments_that_a_client_kept_as_if_it_had_not_stopped(options):
    flat, straight = model(), model()
    optimizer, other = (Optimizer(Training(**options), each) for each in (flat, straight))
    for each, one in ((optimizer, flat), (other, straight)):
        one.vector.fill_(1.0)
        each.reset(RATE)
        walk(each, one, range(3))
    vector, kept = flat.vector.clone(), optimizer.moments()
    optimizer.reset(7 * RATE)
    walk(optimizer, flat, range(2))  # those of another client
    flat.vector.copy_(vector)
    optimizer.reset(RATE, wire.unpack(wire.pack(kept), views=True))
    walk(optimizer, flat, range(3, 5))
    walk(other, straight, range(3, 5))
    assert torch.equal(flat.vector, straight.vector)
    assert same(optimizer.moments(), other.moments())


def test_what_is_kept_by_hand():
    # Adam after gradients 2 and 0: m = 0.9 (0.1 2) = 0.18, v = 0.999 (0.001 4) = 0.003996.
    for options, expected in (
        ({"optimizer": "sgd"}, {}),
        ({"optimizer": "sgd", "momentum": 0.5}, {"step": 0, "momentum_buffer": 1.0}),
        ({"optimizer": "adam"}, {"step": 2, "exp_avg": 0.18, "exp_avg_sq": 0.003996}),
    ):
        flat = model()
        optimizer = Optimizer(Training(**options), flat)
        optimizer.reset(RATE)
        assert optimizer.moments() == {}
        for gradient in (2.0, 0.0):
            flat.gradient.fill_(gradient)
            optimizer.step()
        kept = optimizer.moments()
        assert kept.keys() == expected.keys()
        for name, value in expected.items():
            assert np.asarray(kept[name]) == pytest.approx(value)
            assert np.shape(kept[name]) == (() if name == "step" else (8,))


def test_before_the_first_step_there_is_nothing_to_remember():
    flat = model()
    optimizer = Optimizer(Training(optimizer="adam"), flat)
    optimizer.reset(RATE)
    assert optimizer.park() == {}
    walk(optimizer, flat, [0])
    optimizer.unpark({})
    assert optimizer.park() == {}


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("constant", [0.1, 0.1, 0.1, 0.1, 0.1]),
        ("linear", [0.1, 0.0775, 0.055, 0.0325, 0.01]),
        ("cosine", [0.1, 0.0868198, 0.055, 0.0231802, 0.01]),
    ],
)
def test_schedules_fall_to_the_final_rate(schedule, rates):
    training = Training(learning_rate=0.1, schedule=schedule, final_rate=0.1)
    assert [training.rate(progress / 4) for progress in range(5)] == pytest.approx(rates)


def test_one_cycle_rises_as_a_power_and_falls_as_a_cosine():
    training = Training(learning_rate=1.0, schedule="one_cycle", final_rate=0.1, warm_up=0.4, warm_up_power=2.0)
    rates = [training.rate(progress / 10) for progress in range(11)]
    assert rates[:5] == pytest.approx([0.1, 0.1, 4 / 16, 9 / 16, 1.0])  # 1 / 16 is below the final rate
    assert rates[6] == pytest.approx(0.1 + 0.9 * (0.5 + 0.5 * math.cos(math.pi / 3)))
    assert rates[-1] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("epochs", 0),
        ("blocks", -1),
        ("optimizer", "rmsprop"),
        ("learning_rate", 0.0),
        ("learning_rate", math.nan),
        ("schedule", "cos"),
        ("final_rate", 1.1),
        ("warm_up", 1.0),
        ("momentum", 1.0),
        ("second_moment", 1.0),
        ("weight_decay", -0.1),
        ("clip", -1.0),
        ("proximal", -0.1),
    ],
)
def test_impossible_trainings_are_refused(option, value):
    with pytest.raises(InputError, match=rf"^training\.{option} must be"):
        Training(**{option: value})
