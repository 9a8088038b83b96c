from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.errors import InputError
from fedgraft.methods.rl.ddpg import DDPG
from fedgraft.methods.rl.networks import followed, one_thread
from helpers.toy_runs import same

TINY = DDPG(inputs=1, outputs=1, hidden=(1, 1), gamma=0.9)
QUICK = DDPG(1, 2, hidden=(64, 32), actor_rate=5e-4, critic_rate=0.03, weight_decay=0, gamma=0, tau=0.1, batch=32)


def rng(seed=0):
    return np.random.default_rng(seed)


def f32(*values):
    return np.array(values, np.float32)


def ones(arrays, **changed):
    """Weights of 1 and biases of 0, but for those that are given."""
    filled = {name: np.full_like(array, name.endswith("weight")) for name, array in arrays.items()}
    return {**filled, **{name.replace("_", "."): f32(value) for name, value in changed.items()}}


def by_hand():
    """Actor: tanh(relu(relu(s))). Critic: 2 relu(relu(s) + a) + 0.5."""
    state = TINY.init(rng())
    critic = {**ones(state["critic"]), "2.weight": f32(2).reshape(1, 1), "2.bias": f32(0.5)}
    return {**state, "actor_target": ones(state["actor"]), "critic_target": critic}


def test_the_critics_target_by_hand():
    found = TINY.targets(by_hand(), f32(3, -1), f32([1], [-5]))
    # s' = 1: a' = tanh(1) and Q' = 2 (1 + a') + 0.5; s' = -5: a' = 0 and Q' = 0.5.
    np.testing.assert_allclose(found, [3 + 0.9 * (2 * (1 + np.tanh(1)) + 0.5), -1 + 0.9 * 0.5], rtol=1e-6)


def test_the_first_step_of_the_critic_by_hand():
    # Adam's first step is the rate in each entry, against the gradient's sign: Q = 1.5 is above r = 0 where gamma is 0.
    agent = replace(TINY, gamma=0.0, weight_decay=0.0, critic_rate=0.25, tau=0.5)
    start = agent.init(rng())
    start = {**start, "critic": {**ones(start["critic"]), "2.bias": f32(0.5)}, "actor": ones(start["actor"])}
    start["critic_target"] = start["critic"]
    state = agent.learn(agent.remember(start, f32(1), f32(0), 0.0, f32(1)), rng())
    np.testing.assert_allclose(state["critic"]["2.bias"], [0.25], atol=1e-6)
    np.testing.assert_allclose(state["critic_target"]["2.bias"], [0.375], atol=1e-6)
    np.testing.assert_allclose(state["critic"]["1.weight"], [[0.75, 1]], atol=1e-6)  # the action was 0
    # Its value rises with the action, so the actor's last bias goes up by its rate.
    np.testing.assert_allclose(state["actor"]["2.bias"], [agent.actor_rate], rtol=1e-4)


def test_a_soft_update_by_hand():
    found = followed({"w": f32(1, 0)}, {"w": f32(3, 10)}, 0.005)
    np.testing.assert_allclose(found["w"], [1.01, 0.05], rtol=1e-6)
    assert found["w"].dtype == np.float32


def test_the_memory_keeps_the_newest():
    agent = replace(TINY, memory=2)
    state = agent.init(rng())
    for number in (1.0, 2.0, 3.0):
        state = agent.remember(state, f32(number), f32(-number), 10 * number, f32(number + 1))
    memory = {name: array.ravel().tolist() for name, array in state["memory"].items()}
    assert memory == {"observations": [2, 3], "actions": [-2, -3], "following": [3, 4], "rewards": [20, 30]}


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), noise=st.floats(0, 5), used=st.lists(st.booleans(), min_size=3, max_size=3))
def test_actions_lie_in_the_box_and_are_zero_where_they_have_no_effect(seed, noise, used):
    agent = DDPG(5, 3, masked=True, hidden=(4, 4))
    state, seen = agent.init(rng(seed)), np.concatenate([f32(1, -1), f32(*used)])
    for action in (agent.act(state, seen), agent.act(state, seen, rng(1), noise), agent.any_action(seen, rng(1))):
        assert action.dtype == np.float32
        assert (np.abs(action) <= 1).all()
        assert ((action != 0) <= np.array(used)).all()


def played(agent, best, steps, random_steps=0, seed=0, through_wire=False):
    """A bandit whose reward is minus the squared distance to the best action.

    How far off the policy is, before and after, and the last state.
    """
    g, state, seen = rng(seed), agent.init(rng(seed)), f32(1)
    before = np.abs(agent.act(state, seen) - best).mean()
    for step in range(steps + random_steps):
        action = agent.any_action(seen, g) if step < random_steps else agent.act(state, seen, g, 0.3)
        state = agent.remember(state, seen, action, -float(((action - best) ** 2).sum()), seen)
        if step >= random_steps:
            state = agent.learn(state, g)
        if through_wire:
            state = wire.unpack(wire.pack(state))
    return before, np.abs(agent.act(state, seen) - best).mean(), state


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_the_policy_comes_near_the_best_action_of_a_bandit(seed):
    before, after, _ = played(QUICK, f32(0.6, -0.7), 300, 50, seed)
    assert after < before / 2


def test_a_state_from_the_wire_goes_on_alike_whatever_the_threads():
    _, _, straight = played(QUICK, f32(0.5, 0.5), 5)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        _, _, resumed = played(QUICK, f32(0.5, 0.5), 5, through_wire=True)
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert same(straight, resumed)
    assert same(straight, wire.unpack(wire.pack(straight)))


def test_nothing_given_changes_and_no_global_generator_is_touched():
    state = QUICK.remember(QUICK.init(rng()), f32(1), f32(0, 0), 1.0, f32(1))
    kept = wire.pack(state)
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    QUICK.learn(state, rng())
    QUICK.init(rng())
    assert wire.pack(state) == kept
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("inputs", 0),
        ("outputs", 0),
        ("hidden", (0, 4)),
        ("actor_rate", 0.0),
        ("critic_rate", 0.0),
        ("weight_decay", -1.0),
        ("gamma", 1.0),
        ("tau", 0.0),
        ("batch", 0),
        ("memory", 0),
    ],
)
def test_impossible_options_are_refused(option, value):
    with pytest.raises(InputError, match=rf"^DDPG\.{option} must be"):
        replace(TINY, **{option: value})


def test_a_mask_must_fit_into_the_observation():
    with pytest.raises(InputError, match=r"^DDPG\.inputs must be >= 3"):
        DDPG(2, 3, masked=True)
