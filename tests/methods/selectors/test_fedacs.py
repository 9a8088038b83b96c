"""FedACS: equations (14)-(17) by hand, both phases, constraints (13), ablations."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.contracts import Outcome, View
from fedgraft.errors import InputError
from fedgraft.methods.selectors.fedacs import FedACS


def arms(number_rewards, number_pulls, client_rewards, client_pulls, score=1.0):
    return {
        "number_rewards": np.array(number_rewards, dtype=np.float64),
        "number_pulls": np.array(number_pulls, dtype=np.int64),
        "client_rewards": np.array(client_rewards, dtype=np.float64),
        "client_pulls": np.array(client_pulls, dtype=np.int64),
        "score": score,
    }


def fresh(n, **given):
    """All arms pulled once with no reward, but what is given."""
    zeros, ones = [0.0] * n, [1] * n
    names = ("number_rewards", "number_pulls", "client_rewards", "client_pulls")
    return arms(**{**dict(zip(names, (zeros, ones, zeros, ones), strict=True)), **given})


def test_four_rounds_by_hand(view, outcome, g):
    """N = 2, Tg = 1, B = 1000, 100 bytes per client: exploration in rounds 1 and 2, directed from 3 on."""
    selector = FedACS()

    def at(round):
        return view(2, round=round, bytes_budget=1000, bytes_left=1000)

    state = selector.init(at(1))
    assert selector.select(state, at(1), g).clients == (0, 1)
    state = selector.update(state, at(1), outcome((0, 1), score=1.5))  # ln 1 = 0: only the cost, 200 / 1000
    assert state["number_rewards"] == pytest.approx([0, -0.2])
    assert state["client_rewards"] == pytest.approx([0, 0])

    assert len(selector.select(state, at(2), g).clients) == 1  # the only number left
    state = selector.update(state, at(2), outcome((1,), score=1.2))  # -0.2 ln 2 = -0.138629
    assert state["number_rewards"] == pytest.approx([-0.238629, -0.2], abs=1e-6)
    assert state["client_rewards"] == pytest.approx([0, -0.138629], abs=1e-6)
    assert state["number_pulls"].tolist() == [1, 1]
    assert state["client_pulls"].tolist() == [1, 2]

    # sqrt(2 ln 3) = 1.482304: F = -0.238629 + 1.482304 = 1.243675 and -0.2 + 1.482304 = 1.282304, so M = 2.
    assert selector.select(state, at(3), g).clients == (0, 1)
    state = selector.update(state, at(3), outcome((0, 1), score=1.1))  # -0.1 ln 3 = -0.109861
    assert state["number_rewards"] == pytest.approx([-0.238629, -0.509861], abs=1e-6)
    assert state["client_rewards"] == pytest.approx([-0.109861, -0.248491], abs=1e-6)

    # F = -0.238629 + sqrt(2 ln 4) = 1.426480 and -0.509861 / 2 + sqrt(ln 4) = 0.922479, so M = 1;
    # I = -0.109861 / 2 + sqrt(2 ln 4 / 2) = 1.122479 and -0.248491 / 3 + sqrt(2 ln 4 / 3) = 0.878522, so client 0.
    assert selector.select(state, at(4), g).clients == (0,)


def test_directed_scores_by_hand(view, g):
    """Round 9, ln 9 = 2.197225: (16) picks M = 2, (17) clients 1 and 2."""
    state = arms([0.5, 2.0, -0.3], [2, 4, 3], [0.3, 1.2, 0.9], [3, 8, 2])
    # F = 0.25 + sqrt(2 * 2.197225 / 2) = 1.7323, 0.5 + sqrt(1.0986) = 1.5481, -0.1 + sqrt(1.4648) = 1.1103
    assert selectorless(state, view(3, round=9), g) == (2,)
    state = arms([0.5, 2.6, -0.3], [4, 4, 3], [0.3, 3.2, 0.9], [3, 4, 2])
    # F = 0.125 + 1.0481, 0.65 + 1.0481, 1.1103: M = 2.  I = 0.1 + 1.2103, 0.8 + 1.0481, 0.45 + 1.4823
    assert selectorless(state, view(3, round=9), g) == (1, 2)


def selectorless(state, seen, g):
    return FedACS().select(state, seen, g).clients


def test_ties_go_to_the_lowest_index(view, g):
    assert FedACS().select(fresh(4), view(4, round=5), g).clients == (0,)
    assert FedACS().select(fresh(4, number_rewards=[0, 0, 5, 5]), view(4, round=5), g).clients == (0, 1, 2)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [1, 2, 5, 10])
def test_exploration_pulls_every_number_once_and_every_client(view, outcome, n, seed):
    selector, state, sizes = FedACS(), None, []
    for round in range(1, n + 1):
        seen = view(n, round=round)
        state = selector.init(seen) if state is None else state
        chosen = selector.select(state, seen, np.random.default_rng([seed, round])).clients
        sizes.append(len(chosen))
        state = selector.update(state, seen, outcome(chosen, score=1.1))
    assert sizes[0] == n
    assert sorted(sizes) == list(range(1, n + 1))
    assert state["number_pulls"].tolist() == [1] * n
    assert state["client_pulls"].min() >= 1


def test_exploration_draws_numbers_and_clients_uniformly(view):
    selector, g = FedACS(), np.random.default_rng(0)
    state = arms([0, 0, 0], [0, 0, 1], [0, 0, 0], [1, 1, 1])
    drawn = [selector.select(state, view(3, round=2), g).clients for _ in range(3000)]
    assert np.mean([len(cohort) == 1 for cohort in drawn]) == pytest.approx(1 / 2, abs=0.03)
    assert np.mean([cohort == (1,) for cohort in drawn]) == pytest.approx(1 / 6, abs=0.03)


def test_without_a_budget_the_cost_is_in_rounds_of_full_participation(view, outcome):
    # Two of four clients cost half a round of full participation: 0.5 / budget_rounds
    for budget_rounds, cost in ((1.0, 0.5), (0.5, 1.0)):
        selector = FedACS(budget_rounds=budget_rounds)
        state = selector.update(selector.init(view(4)), view(4), outcome((0, 2), score=2.0))
        assert state["number_rewards"] == pytest.approx([0, -cost, 0, 0])


def test_higher_is_better(view, outcome):
    selector = FedACS(target=0.8)
    seen = view(2, round=2, bytes_budget=1000, better="higher")
    state = selector.update(selector.init(seen), seen, outcome((0,), score=0.6))  # (0.6 / 0.8 - 1) ln 2
    assert state["client_rewards"] == pytest.approx([-0.173287, 0], abs=1e-6)
    assert state["number_rewards"] == pytest.approx([-0.273287, 0], abs=1e-6)


def test_a_failed_client_is_pulled_but_earns_nothing(view, outcome):
    selector, seen = FedACS(target=2.0), view(3, round=2, bytes_budget=1000)
    good = outcome((0, 1), reports={0: {}}, failed={1: "no reply"}, score=1.0)  # 0.5 ln 2 = 0.346574
    state = selector.update(selector.init(seen), seen, good)
    assert state["client_rewards"] == pytest.approx([0.346574, 0, 0], abs=1e-6)
    assert state["client_pulls"].tolist() == [1, 1, 0]
    assert state["number_pulls"].tolist() == [0, 1, 0]
    assert state["number_rewards"] == pytest.approx([0, 0.146574, 0], abs=1e-6)
    bad = dataclasses.replace(good, score=3.0)  # -0.5 ln 2, for both
    state = selector.update(selector.init(seen), seen, bad)
    assert state["client_rewards"] == pytest.approx([-0.346574, -0.346574, 0], abs=1e-6)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_round_without_a_score_is_rewarded_with_the_last_one(view, outcome, missing):
    selector, seen = FedACS(), view(2, round=2, bytes_budget=1000)
    state = selector.update(selector.init(seen), seen, outcome((0,), score=missing))
    assert state["client_rewards"].tolist() == [0, 0]
    assert state["number_rewards"] == pytest.approx([-0.1, 0])
    state = selector.update(state, seen, outcome((0,), score=1.5))
    state = selector.update(state, seen, outcome((0,), score=missing))
    assert state["client_rewards"] == pytest.approx([2 * -0.5 * np.log(2), 0])
    assert state["client_pulls"].tolist() == [3, 0]
    assert state["score"] == 1.5


def test_too_little_budget_lowers_the_number(view, outcome, g):
    state = fresh(4, number_rewards=[0, 0, 0, 9], client_rewards=[1, 2, 3, 4])
    seen = view(4, round=5, bytes_left=250)
    chosen = FedACS().select(state, seen, g).clients
    assert chosen == (2, 3)
    state = FedACS().update(state, seen, outcome(chosen, score=1.0))
    assert state["number_pulls"].tolist() == [1, 2, 1, 1]  # booked as the number that trained
    assert FedACS().select(state, view(4, round=5, bytes_left=99), g).clients == ()
    assert len(FedACS().select(FedACS().init(seen), view(4, bytes_left=399), g).clients) == 3  # round 1 as well


def test_prices_that_differ_give_the_longest_prefix_of_the_ranking(view, g):
    state = fresh(3, number_rewards=[0, 0, 9], client_rewards=[2, 1, 3])
    prices = {"bytes_per_client": [5, 3, 6], "round": 4}
    assert FedACS().select(state, view(3, bytes_left=11, **prices), g).clients == (0, 2)
    assert FedACS().select(state, view(3, bytes_left=10, **prices), g).clients == (2,)  # not 2 and the cheaper 1
    assert FedACS().select(state, view(3, bytes_left=5, **prices), g).clients == (0,)  # the best one that fits


def test_fewest_clients_per_round(view, g):
    selector = FedACS(min_clients=3)
    state = fresh(4, number_rewards=[9, 0, 0, 0], client_rewards=[1, 2, 3, 4])
    assert selector.select(state, view(4, round=5), g).clients == (1, 2, 3)
    assert selector.select(state, view(4, round=5, bytes_left=299), g).clients == ()
    two_left = view(4, round=5, available=[True, False, True, False])
    assert selector.select(state, two_left, g).clients == (0, 2)
    # The best three cost 30, the best three that fit together 25.
    seen = view(4, round=5, bytes_per_client=[5, 10, 10, 10], bytes_left=25)
    assert selector.select(state, seen, g).clients == (0, 2, 3)
    explored = {
        len(selector.select(selector.init(view(4)), view(4, round=2), np.random.default_rng(k)).clients)
        for k in range(20)
    }
    assert explored == {3}


def test_fewest_selections_in_all_raise_the_number_to_the_pace(view, g):
    # 4 + 1 + 2 + 3 = 10 made, 26 missing, 96 rounds left of 100: no need; 9 rounds left of 13: 26 / 9, so 3.
    state = fresh(4, number_rewards=[9, 0, 0, 0])
    assert len(FedACS(min_selections=36).select(state, view(4, round=5, rounds=100), g).clients) == 1
    assert len(FedACS(min_selections=36).select(state, view(4, round=5, rounds=13), g).clients) == 3
    assert len(FedACS().select(state, view(4, round=5, rounds=13), g).clients) == 1
    # A budget for 9 more selections: the pace that spends it is 1 per round.
    assert len(FedACS(min_selections=36).select(state, view(4, round=5, rounds=13, bytes_left=999), g).clients) == 1


@pytest.mark.parametrize("wanted", [60, 75, 80])
def test_fewest_selections_in_all_are_reached(view, outcome, wanted):
    selector, state = FedACS(min_selections=wanted), None
    made = 0
    for round in range(1, 21):
        seen = view(4, round=round, rounds=20)
        state = selector.init(seen) if state is None else state
        chosen = selector.select(state, seen, np.random.default_rng(round)).clients
        made += len(chosen)
        state = selector.update(state, seen, outcome(chosen, score=1.5))
    assert made >= wanted


def test_ablation_with_random_clients(view):
    state, g = fresh(4, number_rewards=[0, 9, 0, 0], client_rewards=[9, 9, 0, 0]), np.random.default_rng(0)
    drawn = {FedACS(clients="random").select(state, view(4, round=5), g).clients for _ in range(200)}
    assert len(drawn) == 6
    assert {len(cohort) for cohort in drawn} == {2}


def test_ablation_with_a_random_number(view):
    state, g = fresh(4, number_rewards=[0, 9, 0, 0], client_rewards=[1, 4, 3, 2]), np.random.default_rng(0)
    drawn = [FedACS(number="random").select(state, view(4, round=5), g).clients for _ in range(2000)]
    assert set(drawn) == {(1,), (1, 2), (1, 2, 3), (0, 1, 2, 3)}
    sizes = np.bincount([len(cohort) for cohort in drawn])[1:] / len(drawn)
    assert np.allclose(sizes, 1 / 4, atol=0.04)


def test_what_could_not_be_tried_ranks_first_once_it_can(view, g):
    state = fresh(4, number_pulls=[1, 1, 2, 0], client_pulls=[2, 2, 0, 2])
    away = view(4, round=5, available=[True, True, True, False])
    chosen = FedACS().select(state, away, g).clients
    assert chosen == (2,)  # not 3 clients in place of the untried 4
    assert FedACS().select(state, view(4, round=6), g).clients == (0, 1, 2, 3)


@given(seed=st.integers(0, 2**32), n=st.integers(1, 7), rounds_paid=st.floats(0, 3), equal=st.booleans())
def test_the_cost_of_a_run_never_exceeds_its_budget(seed, n, rounds_paid, equal):
    g = np.random.default_rng(seed)
    prices = np.full(n, 50) if equal else g.integers(1, 100, n)
    budget = int(rounds_paid * prices.sum())
    selector, state, spent = FedACS(min_selections=2 * n), None, 0
    for round in range(1, 26):
        seen = View(
            round, np.ones(n, np.int64), prices, prices, np.ones(n), np.ones(n, bool), budget - spent, budget, rounds=25
        )
        state = selector.init(seen) if state is None else state
        chosen = selector.select(state, seen, g).clients
        if not chosen:
            assert prices.min() > budget - spent
            break
        cost = int(prices[list(chosen)].sum())
        spent += cost
        assert spent <= budget
        told = Outcome(chosen, {k: {} for k in chosen}, {}, float(g.uniform(0.9, 1.3)), cost, {})
        state = selector.update(state, seen, told)


def test_the_default_does_not_score_on_the_test_set():
    assert FedACS().score_split == "validation"
    assert FedACS(score_split="test").score_split == "test"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("target", 0),
        ("min_clients", 0),
        ("budget_rounds", 0),
        ("min_selections", -1),
        ("number", "ucb1"),
        ("clients", "uniform"),
        ("score_split", "train"),
    ],
)
def test_errors_name_the_option(option, value):
    with pytest.raises(InputError, match=rf"FedACS\.{option} must be .*; got {value!r}\."):
        FedACS(**{option: value})


def test_more_clients_than_there_are(view):
    with pytest.raises(InputError, match=r"FedACS\.min_clients must be in \[1, 4\], the number of clients; got 5\."):
        FedACS(min_clients=5).init(view(4))
