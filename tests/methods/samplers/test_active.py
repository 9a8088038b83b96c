"""Active: Eq. (1) by hand, what an agent sees and learns, who takes part, what is reported."""

import numpy as np
import pytest

from fedgraft.contracts import Observations, Outcome, Stage
from fedgraft.errors import InputError
from fedgraft.methods.samplers.active import SKIP, TRAIN, Active, densities, entropies, uncertainty
from fedgraft.testing.runs import toy
from helpers.toy_runs import run
from laws.parted import parted
from laws.samplers import check_sampler

G = np.random.default_rng


def seen(examples=10, correct=None, probabilities=None):
    g = G(5)
    shares = g.dirichlet(np.ones(3), examples).astype(np.float32) if probabilities is None else probabilities
    return Observations(
        losses=g.random(examples).astype(np.float32),
        probabilities=shares,
        hidden=g.normal(size=(examples, 4)).astype(np.float32),
        correct=np.ones(examples, bool) if correct is None else np.asarray(correct),
        centrality=g.random(examples).astype(np.float32),
        labels=np.zeros(examples, np.int64),
    )


def test_the_reward_is_equation_1():
    half, sampler = seen(correct=[True, False] * 5), Active(base=64, credit="batch")
    assert sampler.rewards({"gain": 0.5}, half, half.losses).tolist() == pytest.approx([8 + 0.5] * 10)
    assert sampler.rewards({}, half, half.losses).tolist() == pytest.approx([1 + 0.5] * 10)


def test_an_example_is_credited_with_the_fall_of_its_own_loss():
    after = seen(3)._replace(losses=np.array([0.5, 1.0, 3.0], np.float32))
    found = Active().rewards({}, after, np.array([1.0, 1.0, 0.5], np.float32))
    assert (found - 2).tolist() == pytest.approx([0.5, 0, -1])


def test_an_agent_that_knows_nothing_ranks_by_the_prior():
    sampler = Active(prior=1e6, explore=0.0)
    look = seen(30)
    state = sampler.watch(sampler.init(30), look, Stage(0), G(0))
    assert np.argsort(-state["scores"]).tolist() == np.argsort(-entropies(look.probabilities)).tolist()


def test_the_agent_has_the_options_of_the_method():
    agent = Active(hidden=7, rate=0.5, gamma=0.1, batch=3, memory=9, copy_every=4).agent
    assert (agent.inputs, agent.actions, agent.hidden, agent.double) == (3, 2, (7,), False)
    assert (agent.rate, agent.gamma, agent.batch, agent.memory, agent.copy_every) == (0.5, 0.1, 3, 9, 4)


def test_it_learns_whom_training_helps():
    """Those of high centrality gain by a step and by nothing else; after some passes they are worth more."""
    sampler, g = Active(prior=0.0, steps=30, explore=1.0, halving=1e9), G(0)
    central = g.normal(size=60).astype(np.float32)
    look = seen(60)._replace(centrality=central, losses=np.ones(60, np.float32))
    state = sampler.watch(sampler.init(60), look, Stage(0), g)
    for _ in range(20):
        (draw,) = sampler.draw(state, np.arange(60), Stage(0), g)
        state = sampler.update(state, draw, np.zeros(30, np.float32))
        fell = np.where(state["trained"] & (central > 0), 0.5, 0).astype(np.float32)
        state = sampler.watch(state, look._replace(losses=1 - fell), Stage(1), g)
        state = {**state, "losses": np.ones(60, np.float32)}
    assert np.corrcoef(state["scores"], central > 0)[0, 1] > 0.6


def test_entropy_and_density_by_hand():
    assert entropies(np.array([[1, 0], [0.5, 0.5]], np.float32)).tolist() == pytest.approx([0, np.log(2)])
    hidden = np.array([[2, 0], [1, 0], [0, 3]], np.float32)
    assert densities(hidden, 512, G(0)).tolist() == pytest.approx([2 / 3, 2 / 3, 1 / 3])


@pytest.mark.parametrize(
    ("score", "order"),
    [("least_confidence", [2, 0, 1]), ("entropy", [2, 0, 1]), ("margin", [0, 2, 1])],
)
def test_scores_that_learn_nothing(score, order):
    shares = np.array([[0.49, 0.48, 0.03], [0.9, 0.06, 0.04], [0.4, 0.3, 0.3]], np.float32)
    assert np.argsort(-uncertainty(score, shares)).tolist() == order


def test_features_are_standardised():
    found = Active().features(seen(50), G(0))
    assert found.shape == (50, 3)
    assert found.mean(0) == pytest.approx(np.zeros(3), abs=1e-5)
    assert found.std(0) == pytest.approx(np.ones(3), abs=1e-5)
    same = seen(4)._replace(centrality=np.ones(4, np.float32))
    assert not Active().features(same, G(0))[:, 0].any(), "what is equal for all tells nothing"


def test_the_highest_scores_take_part():
    sampler = Active(keep=0.4, explore=0.0)
    state = {**sampler.init(5), "scores": np.array([0.1, 0.9, 0.3, 0.8, 0.2], np.float32)}
    (draw,) = sampler.draw(state, np.arange(5), Stage(), G(0))
    assert draw.examples.tolist() == [1, 3]
    after = sampler.update(state, draw, np.zeros(2, np.float32))
    assert after["trained"].tolist() == [False, True, False, True, False]


def test_a_share_is_drawn_at_random_and_falls():
    sampler = Active(keep=0.5, explore=1.0, halving=1.0)
    state = {**sampler.init(100), "scores": np.arange(100, dtype=np.float32)}
    first, late = (sampler.draw({**state, "looks": looks}, np.arange(100), Stage(), G(0))[0] for looks in (0, 60))
    assert min(first.examples) < 50, "all are drawn at random"
    assert late.examples.tolist() == list(range(50, 100))


def test_steps_of_a_pass_share_what_was_chosen():
    sampler = Active(keep=0.5, batches=3)
    draws = sampler.draw(sampler.init(20), np.arange(20), Stage(), G(0))
    assert sorted(len(draw.examples) for draw in draws) == [3, 3, 4]
    assert len({one for draw in draws for one in draw.examples.tolist()}) == 10


def test_a_pass_becomes_transitions_of_those_who_trained_and_those_who_did_not():
    sampler = Active(keep=0.5, explore=0.0, credit="batch")
    state = sampler.watch(sampler.init(10), seen(), Stage(0), G(0))
    assert len(state["agent"]["memory"]["rewards"]) == 0
    (draw,) = sampler.draw(state, np.arange(10), Stage(0), G(1))
    state = sampler.update(state, draw, np.zeros(5, np.float32))
    before = state["features"]
    state = sampler.watch(state, seen(), Stage(1, {"gain": 0.0}), G(2))
    memory = state["agent"]["memory"]
    assert [TRAIN if k in draw.examples else SKIP for k in range(10)] == memory["actions"].tolist()
    assert np.array_equal(memory["observations"], before)
    assert memory["rewards"].tolist() == [2.0] * 10  # 64^0 + 1
    assert state["agent"]["steps"] == 1


def test_the_first_look_of_a_round_rewards_nothing():
    sampler = Active()
    state = sampler.watch(sampler.init(10), seen(), Stage(0), G(0))
    again = sampler.watch(state, seen(), Stage(0), G(0))
    assert len(again["agent"]["memory"]["rewards"]) == 0


def test_quantiles_and_their_mean_are_reported():
    sampler = Active(quantiles=3)
    state = {**sampler.init(5), "scores": np.array([4, 0, 1, 2, 3], np.float32)}
    assert sampler.report(state) == {"score_0": 0.0, "score_1": 2.0, "score_2": 4.0, "score_mean": 2.0}


def test_clients_are_told_by_how_much_the_score_rose():
    sampler, state = Active(), None

    def outcome(score):
        return Outcome((0,), {0: {}}, {}, score, 0, {})

    class View:
        better = "higher"

    for score, gain in ((0.5, 0.0), (0.6, 0.1), (None, 0.1), (0.4, -0.2)):
        state = sampler.learn(state, View, outcome(score), G(0))
        assert sampler.guide(state, View, [3], G(0))[3]["gain"] == pytest.approx(gain)
    assert Active(score="entropy").guidance == ()


def test_a_shared_agent_is_averaged_as_the_model_is():
    """The paper's agg: networks travel, are charged, and after a round all begin with their mean."""
    sections = {"sampler": {"name": "active", "shared": True}, "rounds": 3}
    state, rows, _ = run(parted(**sections))
    alone, rows_alone, _ = run(parted(sampler={"name": "active"}, rounds=3))
    network = sum(array.nbytes for array in state.merging.sampler_shared.values())
    assert network == 4 * (3 * 256 + 256 + 256 * 2 + 2)
    assert alone.merging.sampler_shared == {}
    assert rows[1].bytes - rows_alone[1].bytes == 5 * 2 * network
    again, _, _ = run(parted(**sections))
    assert all(
        np.array_equal(array, again.merging.sampler_shared[name])
        for name, array in state.merging.sampler_shared.items()
    )


def test_the_shared_variant_keeps_the_laws():
    check_sampler(Active, shared=True)


@pytest.mark.parametrize("score", ["least_confidence", "entropy", "margin"])
def test_the_variants_keep_the_laws(score):
    check_sampler(Active, score=score)


def test_a_task_that_does_not_tell_is_refused():
    text = r"^sampler Active sees what a model makes of examples, which task Line does not tell; .*typed_node.* do\.$"
    with pytest.raises(InputError, match=text):
        toy(sampler={"name": "active"})


def test_a_run_learns_with_it():
    state = run(parted(sampler={"name": "active", "keep": 0.8}, rounds=6))[0]
    assert state.curve[-1]["validation"] < state.curve[0]["validation"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"keep": 0}, r"Active\.keep must be in \(0, 1\]; got 0"),
        ({"score": "entropi"}, r"Did you mean 'entropy'"),
        ({"quantiles": 1}, r"Active\.quantiles must be >= 2"),
        ({"base": 1}, r"Active\.base must be in \(1, 1000\]"),
    ],
)
def test_impossible_options_are_refused(options, text):
    with pytest.raises(InputError, match=text):
        Active(**options)
