"""A random share in every pass, by hand and in the long run."""

import numpy as np
import pytest

from fedgraft.contracts import Stage
from fedgraft.errors import InputError
from fedgraft.methods.samplers.uniform import Uniform

BLOCK = np.arange(100, 150)


def draw(block=BLOCK, seed=0, **options):
    sampler = Uniform(**options)
    return sampler.draw(sampler.init(len(block)), block, Stage(), np.random.default_rng(seed))


def test_a_pass_takes_its_share_in_so_many_steps():
    # 0.6 of 50 examples in 5 steps: 6 a step.
    draws = draw(share=0.6, batches=5)
    assert [len(step.examples) for step in draws] == [6] * 5
    for step in draws:
        assert np.isin(step.examples, BLOCK).all()
        assert (np.diff(step.examples) > 0).all(), "each once, in order"
        assert (step.weights, step.refresh, step.neighbours, step.seed, step.ahead) == (None, False, (), 0, None)


@pytest.mark.parametrize(
    ("count", "share", "batches", "size"), [(50, 1.0, 10, 5), (50, 0.7, 10, 4), (7, 0.7, 10, 1), (1, 1.0, 3, 1)]
)
def test_a_step_has_at_least_one_example(count, share, batches, size):
    draws = draw(BLOCK[:count], share=share, batches=batches)
    assert [len(step.examples) for step in draws] == [size] * batches


def test_every_example_is_as_likely():
    g, sampler, counts = np.random.default_rng(0), Uniform(share=0.5, batches=2), np.zeros(20)
    for _ in range(2000):
        for step in sampler.draw(None, np.arange(20), Stage(), g):
            counts[step.examples] += 1
    assert counts.sum() == 2000 * 2 * 5
    assert np.abs(counts / 4000 - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 4000)


def test_a_step_may_ask_to_refresh():
    assert [step.refresh for step in draw(batches=3, refresh=True)] == [True] * 3
    assert [Uniform(batches=3, refresh=refresh).refreshes(4) for refresh in (True, False)] == [12, 0]


def test_an_empty_block_is_no_step():
    assert draw(BLOCK[:0]) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": 0.0}, r"Uniform\.share must be in \(0, 1\]; got 0\.0\."),
        ({"share": 1.1}, r"Uniform\.share must be in \(0, 1\]; got 1\.1\."),
        ({"batches": 0}, r"Uniform\.batches must be >= 1; got 0\."),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        Uniform(**options)
