"""The laws of every sampler, run on each file of the family."""

import copy
import dataclasses
import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.contracts import Sampler, Stage, randomness
from fedgraft.experiment import discovery

NAMES = discovery.names("samplers")
STAGE = Stage()


def build(name):
    return discovery.build("samplers", "sampler", {"name": name})


def equal(one, two):
    if isinstance(one, dict):
        return isinstance(two, dict) and list(one) == list(two) and all(equal(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return isinstance(two, list) and len(one) == len(two) and all(map(equal, one, two))
    if isinstance(one, np.ndarray):
        return isinstance(two, np.ndarray) and one.dtype == two.dtype and np.array_equal(one, two, equal_nan=True)
    return type(one) is type(two) and (one == two or one != one)


def train(sampler, seed, examples, blocks, passes, resume=False):
    """The draws of some passes over random blocks of random losses; every call is checked."""
    g, world = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    cut = np.array_split(np.arange(examples), blocks)
    state, drawn = sampler.init(examples), []
    for _ in range(passes):
        for block in cut:
            before, seen = copy.deepcopy(state), block.copy()
            draws = sampler.draw(state, block, STAGE, g)
            assert equal(state, before), "draw changed the state it was given"
            assert np.array_equal(block, seen), "draw changed the block it was given"
            for draw in draws:
                check(draw, block)
                losses = world.random(len(draw.examples)).astype(np.float32)
                before, told = copy.deepcopy(state), losses.copy()
                after = sampler.update(state, draw, losses)
                assert equal(state, before), "update changed the state it was given"
                assert np.array_equal(losses, told)
                state = after
            drawn += draws
        assert equal(state, wire.unpack(wire.pack(state))), "the wire must carry the state"
        if resume:
            state = wire.unpack(wire.pack(state))
    return drawn


def check(draw, block):
    assert draw.examples.dtype.kind == "i"
    assert len(draw.examples) > 0, "a step needs examples"
    assert np.isin(draw.examples, block).all(), "examples of another block may not share the step"
    assert len(np.unique(draw.examples)) == len(draw.examples), "an example counts once in a step"
    if draw.weights is not None:
        assert draw.weights.dtype == np.float32
        assert draw.weights.shape == draw.examples.shape
        assert np.isfinite(draw.weights).all()
        assert (draw.weights >= 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_is_frozen_and_documented(name):
    cls = discovery.find("samplers", name)
    assert issubclass(cls, Sampler)
    assert cls.__dataclass_params__.frozen
    text = inspect.getdoc(cls) or ""
    assert all(f"{field.name}:" in text for field in dataclasses.fields(cls)), "every option is explained"
    assert all(word in text for word in ("Source:", "Differs:", "State", "Cost:"))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), examples=st.integers(1, 60), blocks=st.integers(1, 4))
def test_draws_lie_within_their_block_and_nothing_given_changes(name, seed, examples, blocks):
    assert train(build(name), seed, examples, blocks, passes=4), "a client with examples has something to learn"


@pytest.mark.parametrize("name", NAMES)
def test_equal_generators_and_a_resumed_state_give_equal_draws(name):
    def run(resume):
        draws = train(build(name), 3, 50, 2, passes=6, resume=resume)
        return [(draw.examples.tolist(), None if draw.weights is None else draw.weights.tolist()) for draw in draws]

    assert run(False) == run(False) == run(True)


@pytest.mark.parametrize("name", NAMES)
def test_one_that_says_it_draws_nothing_draws_nothing(name):
    sampler = build(name)
    if sampler.chancy:
        pytest.skip("draws")
    assert sampler.draw(sampler.init(5), np.arange(5), STAGE, randomness.UNUSED)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layers", [0, 1, 3])
def test_one_that_is_fitted_stays_as_it_is_when_it_is_stored_and_fitted_again(name, layers):
    fitted = build(name).fitted(layers)
    stored = discovery.build("samplers", "sampler", {"name": name, **discovery.options_of(fitted)})
    assert stored.fitted(layers) == stored == fitted


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_block_is_survived(name):
    sampler = build(name)
    assert list(sampler.draw(sampler.init(5), np.array([], np.int64), STAGE, np.random.default_rng(0))) == []
