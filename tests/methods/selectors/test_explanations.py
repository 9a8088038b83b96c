"""Terms of choices are those that choices were made by."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft.contracts import ProbingSelector
from fedgraft.methods.selectors.acfl import ACFL
from fedgraft.methods.selectors.afl import AFL
from fedgraft.methods.selectors.divfl import DivFL, distances
from fedgraft.methods.selectors.favor import Favor
from fedgraft.methods.selectors.fedacs import FedACS
from fedgraft.methods.selectors.fedcor import FedCor
from fedgraft.methods.selectors.fedmarl import FedMarl
from fedgraft.methods.selectors.harmony import Harmony
from fedgraft.methods.selectors.oort import Oort
from fedgraft.methods.selectors.power_of_choice import PowerOfChoice
from fedgraft.methods.selectors.rafhgl import RAFHGL
from fedgraft.methods.selectors.reputation_ucb import ReputationUCB
from fedgraft.testing.selectors import World

CLIENTS = 9


def played(selector, rounds, **world):
    """The state, the view, the cohort and the terms of the last of so many rounds; updates are of random directions."""
    world, g = World(3, CLIENTS, **world), np.random.default_rng(7)
    state = selector.init(world.view(1))
    for round in range(1, rounds + 1):
        view = world.view(round)
        if isinstance(selector, ProbingSelector):
            view = world.probed(view, selector.probe(state, view, np.random.default_rng(round)))
        cohort = selector.select(state, view, np.random.default_rng(round)).clients
        if round == rounds:
            return state, view, list(cohort), dict(selector.explanation(state, view))
        outcome = world.outcome(selector.reports, view, cohort)
        if outcome.updates:
            outcome = replace(outcome, updates={k: {"w": g.normal(size=6).astype(np.float32)} for k in outcome.updates})
        state = selector.update(state, view, outcome)
    return None


def lowest_and_highest(values, cohort):
    """The lowest value of the cohort, and the highest of all others."""
    others = np.delete(values, cohort)
    return np.nanmin(values[cohort]), np.nanmax(others, initial=-np.inf)


@pytest.mark.parametrize("selector", [FedACS(), ReputationUCB(clients=3), RAFHGL(clients=3, explore=0.0, least=0.0)])
def test_who_is_ranked_is_chosen_by_the_highest_value(selector):
    _, _, cohort, explanation = played(selector, CLIENTS + 12)
    lowest, highest = lowest_and_highest(explanation.get("score", explanation.get("agent")), cohort)
    assert lowest >= highest


@pytest.mark.parametrize(
    ("selector", "rounds", "whole", "parts"),
    [
        (FedACS(), 20, "score", ("mean reward", "exploration bonus")),
        (ReputationUCB(clients=3), 20, "score", ("mean reward", "exploration bonus")),
        (RAFHGL(clients=3), 20, "agent", ("score and turn", "learnt")),
    ],
)
def test_parts_add_up(selector, rounds, whole, parts):
    *_, explanation = played(selector, rounds)
    np.testing.assert_allclose(sum(explanation[name] for name in parts), explanation[whole], rtol=1e-12)


@pytest.mark.parametrize("selector", [FedACS(), FedCor(clients=3), DivFL(clients=3), AFL(clients=3)])
def test_a_first_round_that_is_drawn_has_no_terms(selector):
    *_, explanation = played(selector, 1)
    assert explanation == {}
    assert played(FedACS(clients="random"), 20)[-1] == {}


def test_reputation_tells_quotas_where_there_are_any_and_greedy_has_no_score():
    state, _, _, explanation = played(ReputationUCB(clients=3, most_share=0.6), 11)
    np.testing.assert_allclose(explanation["share of rounds"], state["tries"] / 10)
    *_, plain = played(ReputationUCB(clients=3, policy="greedy"), 11)
    assert plain.keys() == {"reputation", "relevance", "contribution", "time cost"}


def test_a_client_that_a_bandit_never_tried_has_no_score():
    selector = FedACS()
    state, view, _, _ = played(selector, 20)
    pulls = state["client_pulls"].copy()
    pulls[4] = 0
    explanation = selector.explanation({**state, "client_pulls": pulls}, view)
    assert np.flatnonzero(np.isnan(explanation["score"])).tolist() == [4]


def test_oort_tells_who_was_tried_from_who_was_not():
    selector = Oort(clients=2, blacklist=3, epsilon=0.2, epsilon_min=0.2)
    state, _, _, explanation = played(selector, 4)
    tried = (state["picks"] > 0) & (state["picks"] <= 3)
    np.testing.assert_array_equal(np.isfinite(explanation["score"]), tried)
    np.testing.assert_array_equal(np.isfinite(explanation["exploration weight"]), state["picks"] == 0)
    score = (explanation["utility"] + explanation["staleness bonus"]) * explanation["speed factor"]
    np.testing.assert_allclose(explanation["score"][tried], score[tried])
    assert (state["picks"] > 3).any() or tried.any()


def test_afl_tells_the_factors_of_what_clients_are_worth():
    state, view, _, explanation = played(AFL(clients=2), 4)
    known = np.isfinite(state["valuation"]) & (view.samples > 0)
    np.testing.assert_allclose(
        (explanation["last loss"] * explanation["root of examples"])[known], state["valuation"][known]
    )
    unknown = np.isnan(state["valuation"])
    assert unknown.any()
    assert set(explanation["score"][unknown]) == {np.nanmax(state["valuation"])}


@pytest.mark.parametrize("selector", [PowerOfChoice(clients=3, candidates=6), ACFL(clients=3, clusters=1)])
def test_losses_of_candidates_are_told_and_the_highest_of_a_cluster_train(selector):
    state, view, cohort, explanation = played(selector, 3)
    told = {k: answer["loss"] for k, answer in view.probed.items()}
    assert {k: explanation["score"][k] for k in told} == told
    assert np.isnan(np.delete(explanation["score"], list(told))).all()
    cluster = state.get("cluster", np.zeros(CLIENTS))
    for each in np.unique(cluster):
        members = np.where(cluster == each, explanation["score"], np.nan)
        if {*np.flatnonzero(cluster == each).tolist()} & {*cohort}:
            lowest, highest = lowest_and_highest(members, cohort)
            assert lowest >= highest


def test_where_nobody_was_asked_there_are_no_losses():
    assert played(PowerOfChoice(clients=CLIENTS), 3)[-1] == {}
    assert played(ACFL(clients=CLIENTS), 3)[-1] == {}
    state, *_, explanation = played(PowerOfChoice(clients=3, variant="rpow-d"), 3)
    np.testing.assert_array_equal(np.isnan(explanation["score"]), np.isinf(state["loss"]))


def test_harmony_tells_scores_as_clients_were_taken():
    selector = Harmony(clients=3)
    state, view, cohort, explanation = played(selector, 8)
    assert state["known"].all()
    np.testing.assert_allclose(explanation["speed"] - explanation["label imbalance"], explanation["score"])
    alone = selector.explanation(state, replace(view, available=np.arange(CLIENTS) == cohort[0]))
    assert np.flatnonzero(np.isfinite(alone["score"])).tolist() == [cohort[0]]
    early = played(selector, 2)
    np.testing.assert_array_equal(np.isnan(early[-1]["score"]), ~early[0]["known"])


def test_divfl_tells_what_each_took_off_the_distances():
    state, _, cohort, explanation = played(DivFL(clients=3), 14)
    assert state["known"].all()
    apart = distances(state["sketches"])
    before, after = apart.max(1).sum(), apart[:, cohort].min(1).sum()
    assert explanation["score"][cohort].sum() == pytest.approx(before - after)
    lowest, highest = lowest_and_highest(explanation["score"], cohort)
    assert lowest >= highest
    assert explanation["clients it stands for"].sum() == CLIENTS
    assert np.flatnonzero(explanation["clients it stands for"]).tolist() == cohort


def test_fedcor_tells_what_each_told():
    state, _, cohort, explanation = played(FedCor(clients=3, warm_up=4), 7)
    assert len(state["changes"])
    assert int(np.nanargmax(explanation["score"])) in cohort
    assert np.isfinite(explanation["score"]).all()
    np.testing.assert_allclose(explanation["factor for past choices"], 0.95 ** state["picked"])


def test_an_agent_s_values_do_not_depend_on_who_was_drawn():
    selector = Favor(clients=3)
    state, view, _, explanation = played(selector, 5)
    assert explanation.keys() == {"agent"}
    assert len({selector.select(state, view, np.random.default_rng(seed)).clients for seed in range(20)}) > 1
    greedy = Favor(clients=3, epsilon=0.0, epsilon_min=0.0)
    lowest, highest = lowest_and_highest(
        explanation["agent"], list(greedy.select(state, view, np.random.default_rng()).clients)
    )
    assert lowest > highest


def test_fedmarl_s_agents_value_candidates_alone():
    selector = FedMarl(clients=4, epsilon=0.0, epsilon_min=0.0)
    _, view, cohort, explanation = played(selector, 5)
    tried = sorted(view.probed)
    np.testing.assert_array_equal(np.flatnonzero(np.isfinite(explanation["agent"])), tried)
    going = [k for k in tried if explanation["agent"][k] > 0]
    assert cohort == (going or [tried[int(np.argmax(explanation["agent"][tried]))]])
    assert [explanation["probed loss"][k] for k in tried] == [view.probed[k]["loss"] for k in tried]


@pytest.mark.parametrize("selector", [RAFHGL(clients=3), Favor(clients=3), FedMarl(clients=3)])
def test_an_agent_begins_with_weights_of_the_run_s_seed(selector):
    views = [replace(World(3, CLIENTS).view(1), seed=seed) for seed in (1, 1, 2)]
    agents = [
        selector._agent(state, view) if isinstance(selector, RAFHGL) else state["agent"]
        for view in views
        for state in [selector.init(view)]
    ]
    one, same, other = (agent["online"]["0.weight"] for agent in agents)
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
