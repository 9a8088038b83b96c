"""A coin for each client, thrown by the server: who trains, and that nobody may."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from fedgraft.errors import InputError
from fedgraft.methods.selectors.poisson import Poisson
from helpers.laws import held
from helpers.toy_runs import gone, looped, run, same, toy
from laws import selectors


@pytest.mark.parametrize("law", held({"a few": selectors.laws(Poisson, clients=1), "half": selectors.laws(Poisson)}))
def test_laws(law):
    law()


def test_a_share_is_the_cohort_over_all():
    assert Poisson(clients=100).share(1000) == 0.1
    assert Poisson().share(5) == 3 / 5
    assert Poisson(clients=5).share(5) == 1.0


def test_more_than_there_are_is_refused(view):
    with pytest.raises(InputError, match=r"Poisson\.clients must be in \[0, 4\], the number of clients; got 5\."):
        Poisson(clients=5).init(view(4))


def test_cohorts_differ_in_size_and_nobody_is_one():
    """Of five clients with q = 0.4 nobody trains in 0.6**5 = 7.8 % of the rounds, and the run goes on."""
    _, rows, _ = run(toy(selector={"name": "poisson", "clients": 2}, rounds=200, evaluation={"every": 200}))
    assert len(rows) == 200
    sizes = Counter(len(row.selected) for row in rows)
    for size in range(5):
        expected = binom.pmf(size, 5, 0.4) * 200
        assert abs(sizes[size] - expected) < 4 * np.sqrt(expected) + 1, size
    by_client = Counter(client for row in rows for client in row.selected)
    assert all(abs(by_client[client] - 80) < 4 * np.sqrt(200 * 0.24) for client in range(5))


def test_a_round_of_nobody_changes_no_model_and_costs_no_training():
    state, rows, runtime = run(toy(selector={"name": "poisson", "clients": 1}, rounds=12))
    empty = [row for row in rows if not row.selected]
    assert empty
    assert all(row.failed == {} and row.bytes == 0 for row in empty)
    assert all(row.validation is not None for row in empty)
    asked = {round for kind, round, *_ in runtime.sent if kind == "train"}
    assert asked == {row.round for row in rows if row.selected}
    assert state.finished == "rounds"


def test_coins_are_thrown_for_clients_that_cannot_be_reached():
    """Who is away is drawn all the same: others take part as often as before, and with the same coins."""
    drawn = toy(selector={"name": "poisson", "clients": 3}, rounds=20)
    cohorts = [row.selected for row in run(drawn)[1]]
    assert [row.selected for row in run(drawn, gone(2))[1]] == cohorts


def test_a_budget_ends_the_run_and_not_an_empty_draw():
    _, rows, _ = run(toy(selector={"name": "poisson", "clients": 1}, rounds=500, budget={"bytes": 5_000}))
    assert 5 < len(rows) < 500
    assert any(not row.selected for row in rows)


def test_a_run_that_is_taken_up_throws_the_same_coins():
    experiment = toy(selector={"name": "poisson", "clients": 2}, rounds=8)
    whole = run(experiment)[0]
    with looped(experiment) as (loop, _):
        state = loop.start()
        for _ in range(3):
            loop.step(state)
        loop.resume(state)
        state = loop.run(state, lambda state, row: None)
    assert same(whole.clients.chosen, state.clients.chosen)
    assert same(whole.sharing, state.sharing)
