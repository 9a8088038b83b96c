"""FedAIS: a worked example, the paper's equations as numbers, and what draws do in the long run."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.contracts import Stage, View
from fedgraft.errors import InputError
from fedgraft.methods.samplers.fedais import FedAIS

BLOCK = np.arange(4)


def view_of(losses=None, epochs=5):
    """What the server knows; `losses` are those of the first model and of the present one."""
    three = np.ones(3, np.int64)
    known = {} if losses is None else {"validation": losses, "test": (losses[1], losses[0])}
    return View(
        round=1,
        samples=three,
        bytes_per_client=three,
        bytes_per_probe=three,
        seconds=np.ones(3),
        available=np.ones(3, bool),
        epochs=epochs,
        losses=known,
    )


def interval(losses=None, epochs=5, **options):
    sampler = FedAIS(**options)
    sent = sampler.guide(None, view_of(losses, epochs), [0, 2], np.random.default_rng(0))
    assert sent.keys() == {0, 2}
    assert sent[0] == sent[2], "the same for everybody"
    assert sent[0].keys() == set(sampler.guidance)
    return sent[0]["interval"]


def after(*looks, **options):
    """A sampler, and a client's state after looks at its losses."""
    sampler = FedAIS(**options)
    state = sampler.init(len(looks[0]) if looks else len(BLOCK))
    for losses in looks:
        state = sampler.observe(state, np.array(losses, np.float32))
    return sampler, state


# --- Eq. (8): who is drawn --------------------------------------------------------------------------------------------


def test_probabilities_are_the_shares_of_the_changes():
    # |1.5 - 1|, |0 - 2|, |3 - 3|, |2.5 - 1| = 0.5, 2, 0, 1.5, of 4 in all.
    sampler, state = after([1, 2, 3, 1], [1.5, 0, 3, 2.5], floor=0.0)
    assert state["change"].tolist() == [0.5, 2.0, 0.0, 1.5]
    assert state["looks"] == 2
    assert sampler._probability(state, BLOCK) == pytest.approx([1 / 8, 1 / 2, 0, 3 / 8], abs=1e-12)
    assert sampler._probability(state, np.array([0, 3])) == pytest.approx([1 / 4, 3 / 4])


def test_no_probability_falls_below_the_floor():
    # Raised to 0.4 / 4 = 0.1 are the shares 0 and no other; then all are divided by 1.1.
    sampler, state = after([1, 2, 3, 1], [1.5, 0, 3, 2.5], floor=0.4)
    assert sampler._probability(state, BLOCK) == pytest.approx(np.array([0.125, 0.5, 0.1, 0.375]) / 1.1)
    sampler, state = after([1, 2, 3, 1], [1.5, 0, 3, 2.5], floor=1.0)
    assert sampler._probability(state, BLOCK) == pytest.approx(np.array([0.25, 0.5, 0.25, 0.375]) / 1.375)


@pytest.mark.parametrize(
    "looks",
    [
        [],
        [[1, 2, 3, 4]],
        [[1, 2, 3, 4], [1, 2, 3, 4]],
        [[1, 2, 3, 4], [np.inf, 2, 3, 4]],
        [[1, 2, 3, 4], [np.nan, 2, 3, 4]],
    ],
)
def test_where_nothing_is_known_to_have_changed_all_are_as_likely(looks):
    sampler, state = after(*looks)
    assert sampler._probability(state, BLOCK).tolist() == [0.25] * 4


def test_a_change_is_since_the_last_look():
    _, state = after([1, 1, 1, 1], [2, 1, 1, 1], [2.5, 1, 1, 4])
    assert state["change"].tolist() == [0.5, 0, 0, 3]
    assert state["loss"].tolist() == [2.5, 1, 1, 4]


def test_without_importance_no_losses_are_looked_at():
    assert (FedAIS(importance=False).observes, FedAIS().observes) == (False, True)


@pytest.mark.parametrize(("count", "share", "taken"), [(25, 1.0, 25), (25, 0.6, 15), (4, 1.0, 4), (1, 0.3, 1)])
def test_without_importance_a_pass_takes_its_share_each_once(count, share, taken):
    draws = steps(0, 2.0, count, importance=False, share=share)
    seen = np.concatenate([step.examples for step in draws])
    assert len(seen) == len(set(seen.tolist())) == taken
    sizes = [len(step.examples) for step in draws]
    assert len(sizes) == min(10, taken)
    assert max(sizes) - min(sizes) <= 1
    assert [step.refresh for step in draws] == [number % 2 == 0 for number in range(len(draws))]
    assert all(step.weights is None for step in draws)


def test_without_importance_every_node_is_as_likely():
    sampler, state = after([1, 2, 3, 1], [1.5, 0, 3, 2.5], importance=False, share=0.5, batches=1)
    found, _ = counted(sampler, state, BLOCK, 8_000)
    assert np.abs(found - 0.5).max() < 5 * math.sqrt(0.25 / 8_000)


def test_without_a_floor_those_whose_loss_has_settled_come_last_and_at_random():
    sampler, state = after(np.ones(20), np.eye(20)[7] + 1, floor=0.0, share=0.5, batches=1)
    drawn = [sampler.draw(state, np.arange(20), Stage(), np.random.default_rng(seed))[0].examples for seed in range(40)]
    assert all(7 in each for each in drawn)
    assert set(np.concatenate(drawn).tolist()) == set(range(20))


def counted(sampler, state, block, passes):
    """How often each example is drawn in a step, of so many passes; and the mean of its weight where it is not."""
    counts, weights, steps, g = np.zeros(block.max() + 1), np.zeros(block.max() + 1), 0, np.random.default_rng(1)
    for _ in range(passes):
        for step in sampler.draw(state, block, Stage(guidance={"interval": 1.0}), g):
            steps += 1
            counts[step.examples] += 1
            if step.weights is not None:
                weights[step.examples] += step.weights / len(step.examples)
    return counts / steps, weights / steps


def test_an_example_is_drawn_as_often_as_it_is_likely():
    sampler, state = after([1, 2, 3, 1], [1.5, 0, 3, 2.5], floor=0.4, share=0.25, batches=1)
    found, _ = counted(sampler, state, BLOCK, 20_000)
    expected = np.array([0.125, 0.5, 0.1, 0.375]) / 1.1
    assert np.abs(found - expected).max() < 5 * math.sqrt(0.25 / 20_000)


def test_two_of_a_step_are_drawn_one_after_the_other_without_replacement():
    # The second is drawn in proportion among those that are left: P(a) = p_a + sum of p_b p_a / (1 - p_b).
    sampler, state = after([1, 2, 3, 1], [1.5, 0, 3, 2.5], floor=0.4, share=0.5, batches=1)
    p = np.array([0.125, 0.5, 0.1, 0.375]) / 1.1
    expected = [p[a] + sum(p[b] * p[a] / (1 - p[b]) for b in range(4) if b != a) for a in range(4)]
    found, _ = counted(sampler, state, BLOCK, 20_000)
    assert np.abs(found - expected).max() < 5 * math.sqrt(0.25 / 20_000)


def test_weights_undo_what_probabilities_do():
    # One of four a step: each has the weight 1 / (4 p), so that its mean weight is a quarter (Eq. 7).
    sampler, state = after([1, 2, 3, 1], [1.5, 0, 3, 2.5], floor=0.4, share=0.25, batches=1, unbiased=True)
    p = np.array([0.125, 0.5, 0.1, 0.375]) / 1.1
    seen = {}
    for step in (sampler.draw(state, BLOCK, Stage(), np.random.default_rng(seed))[0] for seed in range(60)):
        seen[int(step.examples[0])] = float(step.weights[0])
    assert [seen[k] for k in range(4)] == pytest.approx(1 / (4 * p))
    _, weights = counted(sampler, state, BLOCK, 40_000)
    assert np.abs(weights - 0.25).max() < 0.02
    plain, state = after([1, 2, 3, 1], [1.5, 0, 3, 2.5])
    assert plain.draw(state, BLOCK, Stage(), np.random.default_rng(0))[0].weights is None


# --- a pass -----------------------------------------------------------------------------------------------------------


def steps(epoch, tau, count=100, **options):
    sampler, state = after(np.ones(count), **options)
    return sampler.draw(state, np.arange(count), Stage(epoch, {"interval": tau}), np.random.default_rng(0))


def test_a_pass_takes_its_share_in_so_many_steps():
    draws = steps(0, 1.0)
    assert [len(step.examples) for step in draws] == [7] * 10  # 0.7 of 100 in ten steps
    assert all((np.diff(step.examples) > 0).all() for step in draws)
    assert [len(step.examples) for step in steps(0, 1.0, count=6)] == [1] * 10
    assert [len(step.examples) for step in steps(0, 1.0, share=1.0, batches=4)] == [25] * 4
    assert len({tuple(step.examples) for step in draws}) == 10


def test_rows_are_asked_for_every_so_many_steps_of_a_round():
    found = [[k for k, step in enumerate(steps(epoch, 4.0)) if step.refresh] for epoch in range(3)]
    assert found == [[0, 4, 8], [2, 6], [0, 4, 8]]  # steps 0, 4, 8, 12, 16, 20 ...
    assert all(step.refresh for step in steps(1, 1.0))
    assert not any(step.refresh for step in steps(1, 50.0))
    sampler, state = after(np.ones(4))
    unguided = sampler.draw(state, BLOCK, Stage(), np.random.default_rng(0))
    assert all(step.refresh for step in unguided), "without guidance: as often as can be"
    assert sampler.draw(state, BLOCK[:0], Stage(), np.random.default_rng(0)) == []


# --- Eq. (11): how often rows are asked for ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (2.0, 2.0, 50),  # 5 passes of 10 steps: the first interval is the round
        (2.0, 0.98, 35),  # sqrt(0.49) * 50
        (2.0, 0.72, 30),  # sqrt(0.36) * 50
        (2.0, 0.7, 30),  # ceil(29.58)
        (2.0, 0.5, 25),
        (2.0, 0.3, 20),  # sqrt(0.15) * 50 = 19.4: not below two passes
        (2.0, 0.0, 20),
        (2.0, 3.0, 50),  # not above the first, where the loss has risen
        (0.0, 1.0, 50),
    ],
)
def test_the_interval_follows_the_root_of_the_loss(first, last, expected):
    assert interval((first, last)) == expected


def test_the_first_interval_is_as_many_steps_as_a_round_has_or_what_is_asked_for():
    assert interval() == 50
    assert interval(epochs=3, batches=4) == 12
    assert interval(interval=7) == 7
    assert interval((4.0, 1.0), interval=100) == 50
    assert interval((4.0, 1.0), interval=7) == 7, "two passes are more than that"
    assert interval((4.0, 1.0), interval=7, least=0.0) == 4  # ceil(3.5)
    assert interval((4.0, 1.0), least=2.6) == 26
    assert interval((1.0, 0.0), least=0.0) == 1


def test_an_interval_that_is_not_adaptive_stays():
    assert interval((4.0, 0.01), adaptive=False) == 50
    assert interval((4.0, 0.01), adaptive=False, interval=1) == 1


def test_the_loss_is_that_of_the_split_that_is_asked_for():
    assert interval((4.0, 1.0), score_split="validation", least=0.0) == 25
    assert interval((1.0, 4.0), score_split="test", least=0.0) == 25  # in `view_of` the other way round


@settings(max_examples=150, deadline=None)
@given(
    epochs=st.integers(1, 6),
    batches=st.integers(1, 7),
    first=st.integers(0, 60),
    least=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    adaptive=st.booleans(),
    share=st.floats(0.0, 2.0),
)
def test_it_never_asks_more_often_than_it_says(epochs, batches, first, least, adaptive, share):
    sampler, state = after(np.ones(9), batches=batches, interval=first, least=least, adaptive=adaptive)
    sent = sampler.guide(None, view_of((1.0, share), epochs), [0], np.random.default_rng(0))[0]
    found = [
        step.refresh
        for epoch in range(epochs)
        for step in sampler.draw(state, np.arange(9), Stage(epoch, sent), np.random.default_rng(epoch))
    ]
    assert 1 <= sum(found) <= sampler.refreshes(epochs)
    assert found[0], "a round begins with what others pushed"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": 0.0}, r"FedAIS\.share must be in \(0, 1\]; got 0\.0\."),
        ({"share": 1.5}, r"FedAIS\.share must be in \(0, 1\]; got 1\.5\."),
        ({"batches": 0}, r"FedAIS\.batches must be >= 1; got 0\."),
        ({"floor": -0.1}, r"FedAIS\.floor must be in \[0, 1\]; got -0\.1\."),
        ({"floor": 1.1}, r"FedAIS\.floor must be in \[0, 1\]; got 1\.1\."),
        ({"floor": 0.0, "unbiased": True}, r"FedAIS\.floor must be > 0 with unbiased; got 0\.0\."),
        ({"interval": -1}, r"FedAIS\.interval must be >= 0 \(0 = as many steps as a round has\); got -1\."),
        ({"least": -1.0}, r"FedAIS\.least must be >= 0; got -1\.0\."),
        ({"score_split": "train"}, r"FedAIS\.score_split must be one of 'validation', 'test'; got 'train'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        FedAIS(**options)
