"""Safeguards of the choice: losses beyond belief count as typical ones, and nobody is selected without end."""

import numpy as np
import pytest

from fedgraft.contracts import View
from fedgraft.engine.server.rounds.safeguards import Safeguards
from fedgraft.errors import InputError
from fedgraft.testing.runs import play, toy
from helpers.toy_runs import attacked

PICKY = ["acfl", "power_of_choice", "afl", "oort", "fedcor", "fedmarl"]
"""Selectors that look at losses which clients report."""
ALL_ASKED = {"power_of_choice": {"candidates": 8}}
EIGHT = {"name": "fedgraft.testing.toy:Lines", "clients": 8}


def view(*available):
    some = np.full(len(available), 10)
    return View(1, some, some, some, some.astype(float), np.array(available, bool))


def losses(*told):
    return {client: {"loss": loss, "examples": 3.0} for client, loss in enumerate(told)}


def lied_to(selector, by=1e6, rounds=12, **safeguards):
    """How often each of eight clients was selected, two a round, where client 0 inflates its losses; and the rows."""
    experiment = toy(
        rounds=rounds,
        data=EIGHT,
        selector={"name": selector, "clients": 2, **ALL_ASKED.get(selector, {})},
        safeguards=safeguards,
    )
    return attacked(experiment, losses=by)


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_a_loss_far_beyond_others_counts_as_the_typical_one_and_is_named(caplog):
    given, scales = losses(1.0, 2.0, 3.0, 21.0), {}
    found = Safeguards().credible(given, scales)
    assert [report["loss"] for report in found.values()] == [1.0, 2.0, 3.0, 2.0]
    assert given == losses(1.0, 2.0, 3.0, 21.0), "what was reported stays"
    assert scales == {"loss": 2.0}
    said = "Client 3 reports loss = 21, which counts as 2: safeguards.most_loss = 10 allows 20."
    assert caplog.messages == [said]
    assert Safeguards().credible(losses(1.0, 2.0, 3.0, 20.0), {}) == losses(1.0, 2.0, 3.0, 20.0), "far, but not too far"
    assert Safeguards(most_loss=0.0).credible(given, {}) is given


def test_squared_losses_count_twice():
    reports = {client: {"loss_sq": value} for client, value in enumerate([1.0, 1.0, 99.0, 101.0])}
    assert [each["loss_sq"] for each in Safeguards().credible(reports, {}).values()] == [1.0, 1.0, 99.0, 1.0]


def test_the_limit_remembers_the_largest_typical_loss_of_the_run():
    """Where all have learnt, one that has not is as far from the others as a liar: it was no further at the start."""
    scales = {}
    Safeguards().credible(losses(2.0, 2.2, 2.4), scales)
    late = losses(0.01, 0.01, 2.0)
    assert Safeguards().credible(late, scales) is late
    assert scales == {"loss": 2.2}
    assert Safeguards().credible(losses(0.01, 0.01, 23.0), scales)[2]["loss"] == 0.01
    grown = losses(30.0, 31.0, 40.0)
    assert Safeguards().credible(grown, scales) is grown, "all of them diverge: nobody lies"


def test_one_answer_alone_sets_no_scale_and_is_held_against_that_of_others():
    scales = {}
    for _ in range(2):
        assert Safeguards().credible(losses(1e9), scales) == losses(1e9)
    assert scales == {}, "nobody to hold it against"
    Safeguards().credible(losses(1.0, 1e9), scales)
    assert scales == {"loss": 1.0}, "of two the lower one, which a liar cannot move"
    assert Safeguards().credible(losses(1e9), scales) == losses(1.0)


@pytest.mark.parametrize("told", [(np.nan, 1.0, 2.0), (-1.0, -2.0, 3.0), (0.0, 0.0, 5.0)])
def test_losses_that_are_none_or_not_above_zero_are_left_alone(told):
    given = losses(*told)
    assert Safeguards().credible(given, {}) is given


def test_who_was_selected_too_often_rests_unless_nobody_else_is_there():
    seen, guards = view(True, True, False, True), Safeguards(most_chosen=2.0)
    assert guards.rested(seen, [1, 1, 0, 0]).available.tolist() == [True, True, False, True], "two selections are free"
    assert guards.rested(seen, [2, 0, 0, 0]).available.tolist() == [False, True, False, True]
    assert guards.rested(seen, [9, 9, 8, 8]).available.tolist() == seen.available.tolist(), "a mean of 8.5"
    assert guards.rested(view(True, False, False, False), [30, 1, 1, 0]).available.tolist() == [
        *(True, False, False, False)
    ]
    assert Safeguards().rested(seen, [30, 0, 0, 0]) is seen


@pytest.mark.parametrize("value", [1.0, 0.5, -2.0, float("inf")])
def test_a_cap_lets_some_be_selected_more_often_than_others(value):
    with pytest.raises(InputError, match=r"safeguards\.most_chosen must be > 1 and finite \(0 = no limit\); got"):
        Safeguards(most_chosen=value)


# --- in runs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selector", PICKY)
def test_honest_runs_are_the_same_with_and_without(selector):
    sections = {"rounds": 5, "data": EIGHT, "selector": {"name": selector, "clients": 2}}
    with_limit, without = play(toy(**sections)), play(toy(**sections, safeguards={"most_loss": 0.0}))
    assert with_limit.digest == without.digest
    assert with_limit.state.clients.loss_scales
    assert not without.state.clients.loss_scales


@pytest.mark.parametrize("selector", ["acfl", "power_of_choice"])
def test_a_loss_beyond_belief_buys_no_place_in_the_cohort(selector, caplog):
    taken, _ = lied_to(selector, most_loss=0.0)
    assert taken.clients.chosen[0] >= 11, "it would have"
    state, rows = lied_to(selector)
    assert state.clients.chosen[0] <= 8
    assert "Client 0 reports loss" in caplog.text
    assert max(row.loss for row in rows) < 100


@pytest.mark.parametrize("selector", PICKY)
def test_a_lie_within_the_limit_buys_so_many_selections_at_most(selector):
    state, _ = lied_to(selector, by=4.0, most_chosen=2.0)
    assert max(state.clients.chosen) <= 1 + 2.0 * max(1.0, np.mean(state.clients.chosen))
