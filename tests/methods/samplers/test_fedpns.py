"""Everybody is trained on; neighbours are drawn anew every few passes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.contracts import Stage
from fedgraft.errors import InputError
from fedgraft.methods.samplers.fedpns import FedPNS

BLOCK = np.array([3, 5, 8, 9, 12, 20, 21])


def passes(sampler, epochs, block=BLOCK, seed=0, state=None):
    """[the steps of each pass], and the state afterwards."""
    g, found = np.random.default_rng(seed), []
    state = sampler.init(len(block)) if state is None else state
    for epoch in range(epochs):
        found.append(list(sampler.draw(state, block, Stage(epoch), g)))
        for step in found[-1]:
            state = sampler.update(state, step, np.zeros(len(step.examples), np.float32))
    return found, state


def test_five_passes_of_two_between_draws():
    found, state = passes(FedPNS(interval=2, batches=3), 5)
    for steps in found:
        assert [len(step.examples) for step in steps] == [3, 2, 2]
        assert sorted(np.concatenate([step.examples for step in steps]).tolist()) == BLOCK.tolist()
    seeds = [{step.seed for step in steps} for steps in found]
    assert all(len(each) == 1 for each in seeds), "one draw of neighbours for all steps"
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3] != seeds[4] == {state}
    assert [[step.refresh for step in steps] for steps in found] == [
        [True, False, False],
        [False, False, False],
        [True, False, False],
        [False, False, False],
        [True, False, False],
    ]
    for steps in found:
        for step in steps:
            assert (step.ahead is not None) == step.refresh
            assert step.ahead is None or step.ahead.tolist() == BLOCK.tolist(), "rows are asked for all steps to come"


def test_a_round_begins_with_a_draw_of_its_own():
    sampler = FedPNS(interval=3, batches=2)
    (first, *_), state = passes(sampler, 2)
    (second, *_), _ = passes(sampler, 2, seed=1, state=state)
    assert second[0].refresh
    assert second[0].seed != first[0].seed


@settings(max_examples=50, deadline=None)
@given(interval=st.integers(1, 5), epochs=st.integers(1, 12), batches=st.integers(1, 9))
def test_it_asks_as_often_as_it_says(interval, epochs, batches):
    sampler = FedPNS(interval=interval, batches=batches)
    found, _ = passes(sampler, epochs)
    steps = [step for each in found for step in each]
    assert sum(step.refresh for step in steps) == sampler.refreshes(epochs)
    assert all(step.seed > 0 for step in steps), "0 would leave the draw to the trainer"
    assert [len(each) for each in found] == [min(batches, len(BLOCK))] * epochs


def test_an_empty_block_is_no_step():
    assert passes(FedPNS(), 2, BLOCK[:0])[0] == [[], []]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interval": 0}, r"FedPNS\.interval must be >= 1; got 0\."),
        ({"batches": 0}, r"FedPNS\.batches must be >= 1; got 0\."),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        FedPNS(**options)
