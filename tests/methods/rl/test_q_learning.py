from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgraft import wire
from fedgraft.errors import InputError
from fedgraft.methods.rl.q_learning import QLearning
from helpers.toy_runs import same

LINEAR = QLearning(inputs=1, actions=2, hidden=(), gamma=0.5, batch=4)
QUICK = QLearning(inputs=2, actions=2, hidden=(16,), rate=0.02, gamma=0.0, batch=32)


def rng(seed=0):
    return np.random.default_rng(seed)


def f32(*values):
    return np.array(values, np.float32)


def linear(first, second):
    """A network whose actions are worth so many times the observation."""
    return {"0.weight": f32([first], [second]), "0.bias": f32(0, 0)}


def by_hand():
    """Q = (1, -1) s and Q' = (2, 3) s."""
    return {**LINEAR.init(rng()), "online": linear(1, -1), "target": linear(2, 3)}


def test_values_by_hand():
    assert LINEAR.values(by_hand(), f32([2], [-3])).tolist() == [[2, -2], [-3, 3]]


def test_targets_by_hand():
    # s' = 4: Q' = (8, 12), Q = (4, -4); s' = -2: Q' = (-4, -6), Q = (-2, 2).
    rewards, following = f32(1, 0), f32([4], [-2])
    assert LINEAR.targets(by_hand(), rewards, following).tolist() == [1 + 0.5 * 12, 0.5 * -4]
    assert replace(LINEAR, double=True).targets(by_hand(), rewards, following).tolist() == [1 + 0.5 * 8, 0.5 * -6]


def test_the_first_step_by_hand():
    # Adam's first step is the rate in each entry, against the gradient's sign: Q(2, 0) = 2 is below 7 = 1 + 0.5 * 12.
    agent = replace(LINEAR, rate=0.25, copy_every=2)
    state = agent.learn(agent.remember(by_hand(), f32([2]), [0], [1.0], f32([4])), rng())
    np.testing.assert_allclose(state["online"]["0.weight"], [[1.25], [-1]], atol=1e-6)
    np.testing.assert_allclose(state["online"]["0.bias"], [0.25, 0], atol=1e-6)
    assert state["target"]["0.weight"].tolist() == [[2], [3]]  # until the second step
    second = agent.learn(state, rng())
    assert same(second["target"], second["online"])
    assert second["steps"] == 2


TEAM = replace(LINEAR, team=3)
NOBODY = np.nan


def test_the_values_of_a_team_add_up():
    # s' = 4, -2, nobody: Q' = (8, 12), (-4, -6).
    following = f32([[4], [-2], [NOBODY]], [[NOBODY], [NOBODY], [1]])
    found = TEAM.targets({**TEAM.init(rng()), **by_hand()}, f32(1, 0), following)
    assert found.tolist() == [1 + 0.5 * (12 - 4), 0.5 * 3]
    double = replace(TEAM, double=True).targets(by_hand(), f32(1, 0), following)
    assert double.tolist() == [1 + 0.5 * (8 - 6), 0.5 * 2]  # by Q = (1, -1) s the first, the second; the first


def test_a_teams_first_step_by_hand():
    # Q(2, 0) + Q(-3, 1) = 2 + 3 is below 6 = 0 + 0.5 * 12: the first weight goes up, with -3 the second goes down.
    agent = replace(TEAM, rate=0.25)
    state = {**by_hand(), "memory": agent.init(rng())["memory"]}
    seen, after = f32([[2], [-3], [NOBODY]]), f32([[4], [NOBODY], [NOBODY]])
    state = agent.learn(agent.remember(state, seen, [[0, 1, 1]], [0.0], after), rng())
    np.testing.assert_allclose(state["online"]["0.weight"], [[1.25], [-1.25]], atol=1e-6)
    np.testing.assert_allclose(state["online"]["0.bias"], [0.25, 0.25], atol=1e-6)


def test_a_team_learns_who_should_act():
    # One reward for all: 1 for each agent of the first kind that acts, -1 for each of the second kind.
    agent, g = replace(QUICK, team=4, rate=0.01), rng()
    state, kinds = agent.init(g), np.eye(2, dtype=np.float32)
    for _ in range(200):
        who, acts = g.integers(2, size=(4, 4)), g.integers(2, size=(4, 4))
        paid = (acts * (1 - 2 * who)).sum(1)
        state = agent.learn(agent.remember(state, kinds[who], acts, paid, kinds[who]), g)
    gain = agent.values(state, kinds)
    np.testing.assert_allclose(gain[:, 1] - gain[:, 0], [1, -1], atol=0.3)


def test_nothing_is_learnt_from_an_empty_memory():
    state = LINEAR.init(rng())
    assert LINEAR.learn(state, rng()) is state


def test_the_memory_keeps_the_newest():
    agent = replace(LINEAR, memory=3)
    state = agent.remember(agent.init(rng()), f32([1], [2]), [0, 1], [10.0, 20.0], f32([2], [3]))
    state = agent.remember(state, f32([3], [4]), [1, 1], [30.0, 40.0], f32([4], [5]))
    memory = {name: array.ravel().tolist() for name, array in state["memory"].items()}
    assert memory == {"observations": [2, 3, 4], "actions": [1, 1, 1], "rewards": [20, 30, 40], "following": [3, 4, 5]}
    assert state["memory"]["actions"].dtype == np.int64


def test_a_round_that_is_kept_once_teaches_the_same():
    agent, g = replace(QUICK, double=True, gamma=0.5, memory=50, batch=16), rng()
    rounds = replace(agent, rounds=True)
    one, other = agent.init(rng(1)), rounds.init(rng(1))
    for number in range(30):
        seen, after = g.random((2, 2)).astype(np.float32)
        arms, paid = g.integers(2, size=4), g.random(4).astype(np.float32)
        one = agent.remember(one, np.tile(seen, (4, 1)), arms, paid, np.tile(after, (4, 1)))
        other = rounds.remember(other, seen, arms, paid, after)
        one, other = agent.learn(one, rng(number)), rounds.learn(other, rng(number))
    assert other["memory"]["observations"].shape == (13, 2)  # of 50 transitions, four a round
    for name, values in one["online"].items():
        np.testing.assert_allclose(other["online"][name], values, rtol=1e-3, atol=1e-5)
    with pytest.raises(InputError, match=r"^QLearning\.team must be 0 where rounds are remembered; got 2"):
        replace(rounds, team=2)


def played(agent, steps, seed=0, through_wire=False):
    """Two bandits of two arms, told apart by the observation: in one the first pays, in the other the second."""
    g = rng(seed)
    state = agent.init(g)
    for _ in range(steps):
        seen = np.eye(2, dtype=np.float32)[g.integers(2, size=4)]
        arms = g.integers(2, size=4)
        paid = (arms == seen.argmax(1)) + 0.1 * g.standard_normal(4)
        state = agent.learn(agent.remember(state, seen, arms, paid, seen), g)
        if through_wire:
            state = wire.unpack(wire.pack(state))
    return state


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_better_arm_is_learnt(seed, double):
    agent = replace(QUICK, double=double)
    values = agent.values(played(agent, 150, seed), np.eye(2, dtype=np.float32))
    np.testing.assert_allclose(values, np.eye(2), atol=0.3)


@pytest.mark.parametrize("seed", range(3))
def test_what_follows_is_learnt_too(seed):
    # Whoever is at the first place gets to the second by either action, where 1 is paid for ever: 1 / (1 - 0.5) = 2.
    agent, g, places = replace(QUICK, gamma=0.5), rng(seed), np.eye(2, dtype=np.float32)
    state = agent.init(g)
    for arms in ([0, 0], [1, 1]):
        state = agent.remember(state, places, arms, [0.0, 1.0], places[[1, 1]])
    for _ in range(400):
        state = agent.learn(state, g)
    np.testing.assert_allclose(agent.values(state, places), [[1, 1], [2, 2]], atol=0.2)


def test_a_state_from_the_wire_goes_on_alike_whatever_the_threads():
    straight = played(QUICK, 12)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        resumed = played(QUICK, 12, through_wire=True)
    finally:
        torch.set_num_threads(threads)
    assert same(straight, resumed)
    assert same(straight, wire.unpack(wire.pack(straight)))


def test_nothing_given_changes_and_no_global_generator_is_touched():
    state = played(QUICK, 3)
    kept = wire.pack(state)
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    QUICK.learn(state, rng())
    QUICK.values(state, f32([1, 0]))
    QUICK.init(rng())
    assert wire.pack(state) == kept
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("inputs", 0),
        ("actions", 0),
        ("hidden", (4, 0)),
        ("rate", 0.0),
        ("gamma", 1.0),
        ("batch", 0),
        ("memory", 0),
        ("copy_every", 0),
        ("team", -1),
    ],
)
def test_impossible_options_are_refused(option, value):
    with pytest.raises(InputError, match=rf"^QLearning\.{option} must be"):
        replace(LINEAR, **{option: value})
