import numpy as np
import pytest

from fedgraft.contracts import Stage
from fedgraft.errors import InputError
from fedgraft.methods.samplers.all import All

BLOCK = np.array([3, 5, 8, 9, 12, 20, 21])


def draw(block=BLOCK, seed=0, **options):
    sampler = All(**options)
    return sampler.draw(sampler.init(100), block, Stage(), np.random.default_rng(seed))


def test_by_default_a_block_is_one_step_without_weights():
    (only,) = draw()
    assert only.examples.tolist() == BLOCK.tolist()
    assert only.weights is None


@pytest.mark.parametrize(("batch_size", "sizes"), [(7, [7]), (3, [4, 3]), (2, [2, 2, 2, 1]), (1, [1] * 7), (50, [7])])
def test_a_block_is_cut_into_nearly_equal_parts(batch_size, sizes):
    draws = draw(batch_size=batch_size)
    assert [len(step.examples) for step in draws] == sizes
    assert sorted(np.concatenate([step.examples for step in draws])) == BLOCK.tolist()


def test_parts_are_random_and_repeatable():
    def parts(seed):
        return [step.examples.tolist() for step in draw(seed=seed, batch_size=3)]

    assert parts(1) == parts(1)
    assert len({str(parts(seed)) for seed in range(9)}) > 1


def test_an_empty_block_is_no_step():
    assert draw(np.array([], np.int64)) == []
    assert draw(np.array([], np.int64), batch_size=2) == []


def test_impossible_sizes_are_refused():
    with pytest.raises(InputError, match=r"^All\.batch_size must be"):
        All(batch_size=-1)


@pytest.mark.parametrize(("batches", "sizes"), [(1, [7]), (3, [3, 2, 2]), (7, [1] * 7), (20, [1] * 7)])
def test_a_block_may_be_cut_into_so_many_parts_instead(batches, sizes):
    draws = draw(batches=batches)
    assert [len(step.examples) for step in draws] == sizes
    assert sorted(np.concatenate([step.examples for step in draws])) == BLOCK.tolist()


@pytest.mark.parametrize(("options", "most"), [({}, 4), ({"batches": 3}, 12), ({"batches": 50}, 200)])
def test_steps_may_ask_to_refresh(options, most):
    draws = draw(refresh=True, **options)
    assert all(step.refresh for step in draws)
    assert All(refresh=True, **options).refreshes(4) == most
    assert most >= 4 * len(draws)
    assert All(**options).refreshes(4) == 0


def test_parts_and_sizes_cannot_both_be_given():
    with pytest.raises(InputError, match=r"^All\.batches must be 0 where batch_size is given; got 2\."):
        All(batch_size=3, batches=2)
    with pytest.raises(InputError, match=r"^All\.batches must be >= 0"):
        All(batches=-1)
    with pytest.raises(InputError, match=r"^All\.batch_size must be 0 with refresh; give batches instead; got 3\."):
        All(batch_size=3, refresh=True).refreshes(1)
