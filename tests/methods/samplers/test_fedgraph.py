from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.contracts import Batch, Outcome, Stage, Timing, View
from fedgraft.contracts.abilities.tasks import HaloTask
from fedgraft.contracts.facts import TaskFacts
from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.methods.samplers.fedgraph import FedGraph, principal
from helpers.toy_runs import same

SMALL = FedGraph(layers=2, most=5, components=2, sketch=8, start=2, batch=4, hidden=(8, 8))
CLIENTS = 4


def rng(seed=0):
    return np.random.default_rng(seed)


def view(round=1, better="higher"):
    whole = np.ones(CLIENTS, np.int64)
    return View(round, whole, whole, whole, np.ones(CLIENTS), np.ones(CLIENTS, bool), better=better)


def outcome(sent, score=0.5, seconds=1.0, g=None):
    g = g or rng()
    updates = {k: {"w": g.normal(size=(3, 2)).astype(np.float32), "b": np.zeros(2, np.float32)} for k in sent}
    return Outcome(tuple(sent), {}, {}, score, 0, dict.fromkeys(sent, Timing(seconds, 0.0)), updates, sent)


def rounds(sampler, count, seed=0, through_wire=False, score=lambda sent: 0.5):
    """State after some rounds of two clients each, and all that was sent."""
    world, state, all_sent = rng([seed, 1]), None, []
    for number in range(1, count + 1):
        cohort = sorted(world.choice(CLIENTS, 2, replace=False).tolist())
        kept = wire.pack(state)
        sent = sampler.guide(state, view(number), cohort, rng([seed, 2, number]))
        after = sampler.learn(state, view(number), outcome(sent, score(sent), g=world), rng([seed, 3, number]))
        assert wire.pack(state) == kept, "the state that was given changed"
        state = wire.unpack(wire.pack(after)) if through_wire else after
        all_sent.append(sent)
    return state, all_sent


# The paper's figures.


@pytest.mark.parametrize(("score", "reward"), [(0.8, -1.0), (0.8 + 1 / 6, 0.0), (0.8 - 1 / 6, -1.5), (0.8 + 1 / 3, 2)])
def test_the_reward_is_a_power_of_64(score, reward):
    assert FedGraph().reward(score, "higher", 7.0) == pytest.approx(reward)
    assert FedGraph().reward(1.6 - score, "lower", 7.0) == pytest.approx(reward)
    assert FedGraph(seconds_weight=10).reward(score, "higher", 7.0) == pytest.approx(reward - 70)


@pytest.mark.parametrize(
    ("action", "number"), [(-1.0, 1), (-0.61, 1), (-0.59, 2), (0.0, 3), (0.19, 3), (0.21, 4), (0.999, 5), (1.0, 5)]
)
def test_the_box_in_equal_parts(action, number):
    assert SMALL.numbers(np.array([action], np.float32)).tolist() == [number]


def test_noise_is_a_tenth_of_the_most_and_the_first_rounds_are_uniform():
    state, _ = rounds(SMALL, 2)
    spread = FedGraph(layers=2, most=1000, components=2, sketch=8, start=2, hidden=(8, 8))
    chosen = [spread.guide(state, view(3), [0], rng(seed))[0]["neighbours_0"] for seed in range(400)]
    assert np.std(chosen) == pytest.approx(100, rel=0.15)
    early = [spread.guide(None, view(1), [0], rng(seed))[0]["neighbours_0"] for seed in range(400)]
    assert np.std(early) == pytest.approx(1000 / 12**0.5, rel=0.1)
    assert min(early) < 20
    assert max(early) > 980


# What the agent sees.


def test_principal_components_by_hand():
    # Centred: (2, 0), (-2, 0), (0, 1), (0, -1); the mean square of (2, 0), (-2, 0), (0, 1), (0, -1) is 10 / 8.
    rows = np.array([[5, 1], [1, 1], [3, 2], [3, 0]], np.float32)
    expected = np.array([[2, 0], [-2, 0], [0, 1], [0, -1]]) / np.sqrt(10 / 8)
    found = principal(rows, 3)
    np.testing.assert_allclose(np.abs(found[:, :2]), np.abs(expected), atol=1e-6)
    np.testing.assert_allclose(found[:, :2] @ found[:, :2].T, expected @ expected.T, atol=1e-6)
    assert (found.max(0)[:2] >= -found.min(0)[:2] - 1e-6).all()
    assert not found[:, 2].any()


def test_of_nothing_and_of_equal_rows_nothing_is_seen():
    assert not principal(np.zeros((4, 8), np.float32), 2).any()
    assert not principal(np.ones((4, 8), np.float32), 2).any()


def test_a_sketch_keeps_lengths_and_angles():
    wide = FedGraph(layers=2, sketch=512)
    state = wide.learn(None, view(), outcome({}), rng())
    g = rng(5)
    one, two = (g.normal(size=5000).astype(np.float32) for _ in range(2))
    updates = {
        0: {"w": one},
        1: {"w": two},
        2: {"w": one + two},
        3: {"w": one[:4000].reshape(40, 100), "b": one[4000:]},
    }
    sketches = wide._sketched(state, updates)
    np.testing.assert_allclose(sketches[2], sketches[0] + sketches[1], atol=1e-4)
    assert np.array_equal(sketches[3], sketches[0]), "parameters are taken in order, whatever their shapes"
    assert np.linalg.norm(sketches[0]) == pytest.approx(np.linalg.norm(one), rel=0.2)
    assert abs(sketches[0] @ sketches[1]) < 0.2 * np.linalg.norm(one) * np.linalg.norm(two)


# What it learns from.


def test_a_transition_holds_what_was_sent_and_is_complete_when_the_next_cohort_is_known():
    first = SMALL.learn(None, view(1), outcome({1: {"neighbours_0": 1.0, "neighbours_1": 5.0}}, 0.8), rng())
    assert not len(first["agent"]["memory"]["rewards"])
    second = SMALL.learn(first, view(2), outcome({0: {"neighbours_0": 3.0, "neighbours_1": 2.0}}), rng())
    memory = second["agent"]["memory"]
    assert memory["rewards"].tolist() == [-1.0]
    np.testing.assert_allclose(memory["actions"], [[0, 0, -0.8, 0.8, 0, 0, 0, 0]], atol=1e-6)
    assert memory["observations"][0, -8:].tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert memory["following"][0, -8:].tolist() == [1, 1, 0, 0, 0, 0, 0, 0]
    assert not memory["observations"][0, :8].any(), "no update was known yet"
    assert memory["following"][0, :8].any()


def test_without_a_score_the_last_one_counts_and_before_any_there_is_nothing_to_learn():
    sent = {1: {"neighbours_0": 1.0, "neighbours_1": 5.0}}
    state = None
    for number, score in enumerate([None, 0.8, None, float("nan"), 0.8], 1):
        state = SMALL.learn(state, view(number), outcome(sent, score), rng())
    assert state["agent"]["memory"]["rewards"].tolist() == [-1.0] * 3
    assert state["rounds"] == 5


def test_learning_begins_with_the_last_of_the_uniform_rounds():
    sampler = replace(SMALL, start=4)
    three, _ = rounds(sampler, 3)
    four, _ = rounds(sampler, 4)
    assert same(three["agent"]["critic"], three["agent"]["critic_target"])
    assert not same(four["agent"]["critic"], three["agent"]["critic"])


def test_numbers_come_near_those_that_score():
    sampler = replace(SMALL, start=20, actor_rate=0.01, critic_rate=0.01, gamma=0.0, steps=3, batch=32, noise=0.1)

    def off(sent):
        return np.mean([abs(numbers["neighbours_0"] - 5) / 4 for numbers in sent.values()])

    _, all_sent = rounds(sampler, 150, score=lambda sent: 0.9 - 0.5 * off(sent))
    assert np.mean([off(sent) for sent in all_sent[-30:]]) < 0.5 * np.mean([off(sent) for sent in all_sent[:20]])


# What crosses the wire.


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), most=st.integers(1, 30), layers=st.integers(1, 3))
def test_what_is_sent_is_a_whole_number_in_range_for_each_layer(seed, most, layers):
    sampler = replace(SMALL, most=most, layers=layers)
    _, all_sent = rounds(sampler, 4, seed)
    for sent in all_sent:
        assert len(sent) == 2
        for numbers in sent.values():
            assert tuple(numbers) == sampler.guidance
            assert all(number in range(1, most + 1) for number in numbers.values())


def test_a_state_from_the_wire_tells_and_learns_alike():
    straight, all_sent = rounds(SMALL, 6)
    resumed, again = rounds(SMALL, 6, through_wire=True)
    assert same(straight, resumed)
    assert all_sent == again


# At a client.


def test_a_draw_carries_what_was_sent():
    stage = Stage(0, {"neighbours_0": 3.0, "neighbours_1": 25.0})
    draws = FedGraph(layers=2, batches=3).draw(None, np.arange(7), stage, rng())
    assert [len(draw.examples) for draw in draws] == [3, 2, 2]
    assert sorted(np.concatenate([draw.examples for draw in draws])) == list(range(7))
    assert all(draw.neighbours == (3, 25) and draw.refresh for draw in draws)
    (draw,) = FedGraph(batches=1, refresh=False).draw(None, np.arange(7), Stage(), rng())
    assert (draw.neighbours, draw.refresh) == ((), False), "without guidance the task decides"


@pytest.mark.parametrize(("refresh", "most"), [(True, 50), (False, 0)])
def test_rows_are_asked_for_before_every_step(refresh, most):
    assert FedGraph(refresh=refresh).refreshes(5) == most


# In a run.

BLOCKS = {
    "data.name": "blocks",
    "data.nodes": 300,
    "data.clients": 5,
    "data.features": 8,
    "model.hidden": [8, 4],
    "selector.clients": 3,
    "sampler.start": 2,
    "sampler.hidden": [8, 8],
    "sampler.batches": 2,
    "training.epochs": 1,
    "rounds": 3,
    "runtime.workers": 0,
    "checkpoint.every_seconds": 0,
    "baselines": [],
}


def test_the_recipe_gives_equal_runs_also_when_it_is_stopped_and_resumed(tmp_path):
    class Stops:
        def after_round(self, state, row):
            if row.round == 2:
                raise KeyboardInterrupt

    built = jobs.load("fedgraph", BLOCKS)
    for name in ("one", "two"):
        execute(built, tmp_path / name)
    with pytest.raises(KeyboardInterrupt):
        execute(built, tmp_path / "stopped", Stops())
    resume(tmp_path / "stopped")
    stores = [RunFolder.open(tmp_path / name) for name in ("one", "two", "stopped")]
    assert len({store.summary()["digest"] for store in stores}) == 1
    states = [store.load()[0].sampler for store in stores]
    assert same(states[0], states[1])
    assert same(states[0], states[2])
    assert len(states[0]["agent"]["memory"]["rewards"]) == 2
    assert states[0]["sketches"].any()


def test_the_score_is_validations_whatever_the_selector_sees(tmp_path):
    fedacs = {"selector.name": "fedacs", "selector.clients": "ucb", "selector.score_split": "test", "rounds": 1}
    execute(jobs.load("fedgraph", {**BLOCKS, **fedacs}), tmp_path / "run")
    state, _ = RunFolder.open(tmp_path / "run").load()
    last = state.curve[-1]
    assert state.sampler["score"] == last["validation"] != last["test"] == state.selector["score"]


@pytest.mark.parametrize(("model", "hidden"), [("sage", [8]), ("gcn", [8]), ("sage", [8, 8, 4])])
def test_a_number_is_sent_for_each_convolution_of_the_model(model, hidden):
    built = jobs.load("fedgraph", {**BLOCKS, "model.name": model, "model.hidden": hidden, "rounds": 2})
    assert built.plan.sampler.layers == built.recipe.sections["sampler"]["layers"] == len(hidden)
    assert execute(built)["rounds"] == 2


def test_a_number_of_layers_that_the_model_has_not_is_refused_before_any_data_are_loaded():
    with pytest.raises(InputError, match=r"^FedGraph\.layers must be 2 as the model has, or 0; got 3\.$"):
        jobs.load("fedgraph", {**BLOCKS, "sampler.layers": 3})


def test_a_task_that_draws_no_neighbours_is_sent_a_number_that_it_has_no_use_for():
    assert FedGraph().fitted(TaskFacts()).layers == 1
    assert FedGraph(layers=3).fitted(TaskFacts()).layers == 3


def test_the_task_refuses_another_number_of_layers():
    built = jobs.load("fedgraph", BLOCKS)
    shards = built.data.load(1)
    task = built.fitted(shards).plan.task
    data, model = task.prepare(shards[0], {}), built.fitted(shards).plan.build_model().module
    for call in (lambda draw: task.loss(model, data, draw, None), lambda draw: task.ability(HaloTask).read(data, draw)):
        with pytest.raises(InputError, match=r"^The sampler's layers must be 2, the model's convolutions; got 3\.$"):
            call(Batch(np.arange(2), neighbours=(1, 2, 3)))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *[(name, 0) for name in ("batches", "most", "components", "sketch", "steps", "batch", "memory")],
        *[(name, -1) for name in ("layers", "seconds_weight", "start", "noise")],
        *[(name, 0.0) for name in ("actor_rate", "critic_rate", "tau")],
        ("target", float("nan")),
        ("base", 1.0),
        ("gamma", 1.0),
        ("hidden", (0, 1)),
    ],
)
def test_impossible_options_are_refused(option, value):
    with pytest.raises(InputError, match=rf"^FedGraph\.{option} must be"):
        FedGraph(**{option: value})
