"""FAVOR: what the agent sees and is paid, and that it learns who is worth most."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.selectors.favor import Favor, axes
from fedgraft.methods.sketches import SKETCH, sketch
from fedgraft.testing import check_selector
from helpers.toy_runs import same

SMALL = Favor(clients=2, hidden=(8,), batch=8, epsilon=0.0, epsilon_min=0.0)


def rng(seed=0):
    return np.random.default_rng(seed)


def updates(*clients, seed=0):
    g = rng(seed)
    return {k: {"w": g.standard_normal(50).astype(np.float32)} for k in clients}


def test_rewards_by_hand():
    selector = Favor(target=0.5, base=16.0)
    assert selector.reward(0.5, "higher") == 0
    assert selector.reward(0.25, "higher") == pytest.approx(16**-0.25 - 1)
    assert selector.reward(0.75, "lower") == pytest.approx(16**-0.25 - 1)
    assert selector.reward(1e9, "higher") == selector.reward(-1e9, "lower") == 15
    assert selector.reward(-1e9, "higher") == -1


def test_axes_are_principal_and_have_a_spread_of_one():
    rows = (rng().standard_normal((30, 2)) * (5, 1)) @ np.eye(2, SKETCH)
    found = rows @ axes(rows.astype(np.float32), 2)
    assert (found**2).mean() == pytest.approx(1, rel=1e-5)
    assert (found**2).mean(0)[0] > 5 * (found**2).mean(0)[1]
    assert abs((found[:, 0] @ found[:, 1]) / 30) < 1e-5
    alone = axes(rows[:1].astype(np.float32), 2)
    assert not alone[:, 1].any(), "there is one axis"
    assert not axes(np.zeros((3, SKETCH), np.float32), 2).any()


def test_the_first_updates_give_the_axes_and_all_are_seen_along_them(view, outcome):
    first, second = updates(0, 1), updates(1, 2, seed=1)
    samples = view(4, samples=[10, 30, 10, 10])
    one = SMALL.update(SMALL.init(samples), samples, outcome((0, 1), updates=first))
    two = SMALL.update(one, samples, outcome((1, 2), updates=second))
    assert same(one["loadings"], two["loadings"])
    sketches = np.stack([sketch(first[0]), sketch(first[1])])
    np.testing.assert_allclose(one["coordinates"][:2], sketches @ one["loadings"], rtol=1e-5)
    np.testing.assert_allclose(two["coordinates"][0], one["coordinates"][0])
    np.testing.assert_allclose(two["coordinates"][2], sketch(second[2]) @ one["loadings"], rtol=1e-5)
    assert not two["coordinates"][3].any()
    np.testing.assert_allclose(one["merged"], (0.25 * sketches[0] + 0.75 * sketches[1]) @ one["loadings"], rtol=1e-4)
    later = 0.75 * two["coordinates"][1] + 0.25 * two["coordinates"][2]
    np.testing.assert_allclose(two["merged"], one["merged"] + later, rtol=1e-4)


def test_a_round_is_a_transition_of_each_client_that_answered(view, outcome):
    state = SMALL.init(view(4))
    told = outcome((0, 1, 3), reports={0: {}, 3: {}}, failed={1: "gone"}, updates=updates(0, 3), score=0.85)
    after = SMALL.update(state, view(4, better="higher"), told)
    memory = after["agent"]["memory"]
    assert memory["actions"].tolist() == [0, 3]
    assert memory["rewards"].tolist() == [0, 0]
    assert not memory["observations"].any()
    seen = np.concatenate([after["merged"], after["coordinates"].ravel()])
    assert memory["place"].tolist() == [0, 0]
    assert np.array_equal(memory["following"], seen[None])


def test_the_last_score_counts_until_there_is_another(view, outcome):
    state = SMALL.init(view(4))
    for score, known, remembered in ((None, None, 0), (0.85, 0.85, 2), (None, 0.85, 4), (np.nan, 0.85, 6)):
        state = SMALL.update(state, view(4, better="higher"), outcome((0, 1), score=score))
        assert state["score"] == known
        assert len(state["agent"]["memory"]["rewards"]) == remembered
    assert not state["agent"]["memory"]["rewards"].any()


def valued(values):
    """A state whose agent thinks this of clients, whatever it sees."""
    state = SMALL.init(type("Seen", (), {"clients": len(values), "seed": 0})())
    last = {"1.weight": np.zeros((len(values), 8), np.float32), "1.bias": np.array(values, np.float32)}
    return {**state, "agent": {**state["agent"], "online": {**state["agent"]["online"], **last}}}


def test_the_highest_values_train(view, g):
    state = valued([1, 5, 3, 4])
    assert SMALL.select(state, view(4), g).clients == (1, 3)
    assert SMALL.select(state, view(4, available=[True, False, True, True]), g).clients == (2, 3)


def test_places_are_given_at_random_less_and_less(view):
    state, selector = valued([9, 8, 0, 0, 0, 0]), Favor(clients=2, hidden=(8,), epsilon_decay=0.5)

    def random(round):
        chosen = [selector.select(state, view(6, round=round), rng(seed)).clients for seed in range(300)]
        return np.mean([cohort != (0, 1) for cohort in chosen])

    assert random(1) > 0.85
    assert 0.05 < random(8) < 0.3  # two places, each random with a chance of 0.1


def test_who_brings_scores_is_learnt(view, outcome):
    """Only clients 0 and 1 bring the score to the target."""
    selector = Favor(clients=2, target=0.9, gamma=0.0, hidden=(16,), rate=0.01, steps=4, epsilon_decay=0.97)
    state, g = selector.init(view(6)), rng()
    for round in range(1, 120):
        seen = view(6, round=round, better="higher")
        cohort = selector.select(state, seen, g).clients
        score = 0.9 - 0.4 * (2 - len({0, 1} & {*cohort}))
        state = selector.update(state, seen, outcome(cohort, updates=updates(*cohort, seed=round), score=score))
    assert replace(selector, epsilon_min=0.0).select(state, view(6, round=9999), g).clients == (0, 1)


@pytest.mark.slow
def test_small_options_keep_the_laws():
    check_selector(Favor, hidden=(), components=1, memory=2, steps=0)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("clients", -1),
        ("target", 101.0),
        ("base", 1.0),
        ("components", 257),
        ("epsilon", 1.5),
        ("epsilon_decay", 0.0),
        ("epsilon_min", -0.1),
        ("hidden", (0,)),
        ("rate", 0.0),
        ("gamma", 1.0),
        ("steps", -1),
        ("batch", 0),
        ("memory", 0),
        ("copy_every", 0),
    ],
)
def test_impossible_options_are_refused(option, value):
    with pytest.raises(InputError, match=rf"^Favor\.{option} must be"):
        Favor(**{option: value})


def test_more_clients_than_there_are_are_refused(view):
    with pytest.raises(InputError, match=r"Favor\.clients must be in \[0, 4\]"):
        Favor(clients=5).init(view(4))
