"""RAFHGL: Eq. (2) by hand, who is chosen, and what the agent learns from."""

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.selectors.rafhgl import NUMBERS, RAFHGL
from helpers.toy_runs import run, same
from laws.parted import parted


def reports(selector, scores):
    """{client: the same score in every quantile}."""
    return {k: dict.fromkeys(selector.reports, value) for k, value in scores.items()}


def test_the_reward_is_equation_2():
    assert RAFHGL(base=64, target=0.9).reward(0.9, "higher") == 0
    assert RAFHGL(base=64, target=0.9).reward(0.4, "higher") == pytest.approx(1 / 8 - 1)
    assert RAFHGL(base=64, target=0.5).reward(1.0, "lower") == pytest.approx(1 / 8 - 1)


def test_the_agent_s_best_are_chosen(view, g):
    selector = RAFHGL(clients=2, explore=0.0, least=0.0)
    state = selector.init(view(5))
    best = sorted(np.argsort(-selector.values(state, view(5)))[:2].tolist())
    assert list(selector.select(state, view(5), g).clients) == best


def test_the_first_rounds_are_afl_s(view):
    selector = RAFHGL(clients=2, explore=1.0, decay=1.0, temperature=50.0, discarded=0.5, uniform=0.0)
    state = selector.init(view(6))
    state = {**state, "worth": np.array([0.1, 0.2, 3.0, 0.1, 2.9, 0.0])}
    drawn = [selector.select(state, view(6), np.random.default_rng(k)).clients for k in range(20)]
    assert set(drawn) == {(2, 4)}


def test_the_probability_of_afl_s_draw_falls():
    selector = RAFHGL(explore=0.8, decay=0.5, least=0.15)
    assert [selector.exploration(round) for round in (1, 2, 3, 4)] == pytest.approx([0.8, 0.4, 0.2, 0.15])


def test_each_client_of_the_cohort_is_a_transition(view, outcome):
    selector = RAFHGL(clients=2, quantiles=2, target=0.9)
    state = selector.init(view(3, better="higher"))
    told = outcome((0, 2), reports=reports(selector, {0: 0.5, 2: 0.25}), score=0.9)
    after = selector.update(state, view(3, better="higher"), told)
    memory = after["agent"]["memory"]
    assert memory["actions"].tolist() == [0, 2]
    assert memory["rewards"].tolist() == [0, 0]
    assert memory["place"].tolist() == [0, 0]
    assert memory["observations"].tolist() == [[0] * 6]
    assert memory["following"].tolist() == [[0.5, 0.5, 0, 0, 0.25, 0.25]]
    assert after["worth"][[0, 2]].tolist() == [0.5, 0.25]
    assert np.isnan(after["worth"][1])


def test_rewards_are_taken_relative_to_the_last_rounds(view, outcome):
    selector = RAFHGL(clients=1, quantiles=2, target=0.5, relative=2)
    state, seen = selector.init(view(2)), view(2, better="higher")
    for score in (0.5, 1.0, 1.0):
        state = selector.update(state, seen, outcome((0,), reports=reports(selector, {0: 0.1}), score=score))
    # rewards 0, 7 and 7; before them nothing, then 0, then the mean of 0 and 7
    assert state["agent"]["memory"]["rewards"].tolist() == [0, 7, 3.5]
    assert state["rewards"].tolist() == [7, 7]


def test_among_equals_by_the_agent_the_mean_score_decides(view, g):
    selector = RAFHGL(clients=1, explore=0.0, least=0.0, prior=1e6)
    state = {**selector.init(view(3)), "worth": np.array([0.1, 0.4, 0.2])}
    assert selector.select(state, view(3), g).clients == (1,)
    state = {**state, "worth": np.array([0.1, 0.4, np.nan])}
    worth = selector.worth(state, view(3))
    assert worth[2] == worth[1], "who never trained is worth as much as the best"


def test_who_trained_longest_ago_takes_a_turn(view):
    """Four clients, two train: all take a turn in two rounds."""
    selector = RAFHGL(clients=2, prior=0.0, turn=3.0)
    state = {**selector.init(view(4)), "trained": np.array([10, 9, 8, 0])}
    assert selector.worth(state, view(4, round=10)).tolist() == [0, 1.5, 3, 3]


def test_nothing_is_learnt_before_there_is_a_score(view, outcome):
    selector = RAFHGL()
    told = outcome((0,), reports=reports(selector, {0: 1.0}), score=None)
    after = selector.update(selector.init(view(3)), view(3), told)
    assert len(after["agent"]["memory"]["rewards"]) == 0
    assert after["quantiles"][0].tolist() == [1.0] * 5


def test_it_learns_which_client_brings_the_reward(view, outcome):
    selector = RAFHGL(clients=1, quantiles=2, steps=20, gamma=0.0, target=1.0, prior=0.0, turn=0.0)
    state = selector.init(view(4))
    for round in range(1, 40):
        chosen = round % 4
        told = outcome((chosen,), reports=reports(selector, {chosen: 0.1}), score=1.0 if chosen == 2 else 0.0)
        state = selector.update(state, view(4, round=round, better="higher"), told)
    assert int(selector.values(state, view(4, round=40)).argmax()) == 2


def test_a_large_federation_keeps_fewer_transitions():
    assert RAFHGL().agent(20).memory == 10_000
    assert RAFHGL().agent(1000).memory * 2 * 5000 <= NUMBERS


def test_the_agent_has_the_options_of_the_method():
    agent = RAFHGL(hidden=7, rate=0.5, gamma=0.1, batch=3, memory=9, copy_every=4, quantiles=2).agent(clients=5)
    assert (agent.inputs, agent.actions, agent.hidden, agent.double) == (10, 5, (7,), True)
    assert (agent.rate, agent.gamma, agent.batch, agent.memory, agent.copy_every) == (0.5, 0.1, 3, 9, 4)


def test_it_needs_a_sampler_that_tells_scores():
    text = r"^selector RAFHGL needs score_0, .* score_mean, which task \w+ and sampler All do not report\.$"
    with pytest.raises(InputError, match=text):
        parted(selector={"name": "rafhgl"})
    text = r"needs score_5, which task \w+ and sampler Active do not report"
    with pytest.raises(InputError, match=text):
        parted(selector={"name": "rafhgl", "quantiles": 6}, sampler={"name": "active"})


def test_a_run_with_both_agents_is_the_same_every_time():
    sections = {"selector": {"name": "rafhgl", "clients": 2}, "sampler": {"name": "active"}, "rounds": 5}
    one, other = (run(parted(**sections))[0] for _ in range(2))
    assert same(one.selector, other.selector)
    assert one.selector["agent"]["steps"] == 5


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"quantiles": 1}, r"RAFHGL\.quantiles must be >= 2"),
        ({"decay": 0}, r"RAFHGL\.decay must be in \(0, 1\]"),
        ({"explore": 2}, r"RAFHGL\.explore must be in \[0, 1\]"),
    ],
)
def test_impossible_options_are_refused(options, text):
    with pytest.raises(InputError, match=text):
        RAFHGL(**options)
