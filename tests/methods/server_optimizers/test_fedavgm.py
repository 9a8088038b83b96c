"""Momentum at the server, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.errors import InputError
from fedgraft.methods.server_optimizers.fedavgm import FedAvgM
from helpers.server_steps import walk
from helpers.toy_runs import run, same, toy


def test_a_worked_example():
    # v = 2, then 0.5 2 - 1 = 0, then 0.5 0 + 4 = 4; half of it each time.
    moves, state = walk(FedAvgM(momentum=0.5, learning_rate=0.5), 2, -1, 4)
    assert moves == [1, 0, 2]
    assert state == {"velocity": 4}


@given(st.floats(0, 0.99), st.floats(-10, 10))
def test_a_steady_change_moves_by_a_geometric_series(momentum, change):
    moves, _ = walk(FedAvgM(momentum=momentum), *[change] * 4)
    assert moves[-1] == pytest.approx(change * sum(momentum**k for k in range(4)), rel=1e-5, abs=1e-30)


@pytest.mark.parametrize("sharing", ["fedavg", "fedprox", "scaffold"])
def test_without_momentum_at_rate_one_it_is_plain_averaging(sharing):
    plain, _, _ = run(toy(sharing=sharing))
    moved, _, _ = run(toy(sharing=sharing, server_optimizer={"name": "fedavgm", "momentum": 0.0}))
    assert same(moved.sharing, plain.sharing)


def test_a_run_by_hand():
    plain, _, _ = run(toy(rounds=1))
    moved, _, _ = run(toy(rounds=1, server_optimizer={"name": "fedavgm", "learning_rate": 0.5}))
    start = toy().plan.first
    for name, array in start.items():
        assert moved.sharing["model"][name] == pytest.approx((array + plain.sharing["model"][name]) / 2, rel=1e-6)
    velocity = moved.merging.server_optimizer["0"]["velocity"]
    assert {name: array.shape for name, array in velocity.items()} == {name: a.shape for name, a in start.items()}


@pytest.mark.parametrize(("option", "value"), [("momentum", 1.0), ("momentum", -0.1), ("learning_rate", 0.0)])
def test_impossible_options_are_refused(option, value):
    with pytest.raises(InputError, match=rf"^FedAvgM\.{option} must be .*; got {value}"):
        FedAvgM(**{option: value})
