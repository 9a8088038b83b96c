"""What is kept of the terms of a choice, and what a row tells."""

from dataclasses import dataclass

import numpy as np
import pytest

from fedgraft.contracts import View
from fedgraft.engine.server.loop.choosing import MOST_EXPLAINED, kept
from fedgraft.errors import FedgraftError
from helpers.toy_methods import Without
from helpers.toy_runs import looped, run, same, scripted, toy


def seen(clients=4, away=(), prices=10, bytes_left=None):
    """What a selector saw of equal clients."""
    available = np.ones(clients, bool)
    available[list(away)] = False
    cost = np.full(clients, prices) if np.isscalar(prices) else np.array(prices)
    return View(1, np.ones(clients, np.int64), cost, cost, np.zeros(clients), available, bytes_left)


@dataclass(frozen=True)
class Explained(Without):
    """Tells numbers of clients, for as many as it is told."""

    count: int = 0

    def explanation(self, state, view):
        return {"score": np.arange(self.count or view.clients) / 3}


def test_terms_are_kept_of_those_who_could_be_chosen_and_have_one():
    explanation = {"score": np.array([0.5, 1.0, np.nan, 2.0]), "cost": np.array([np.inf, 1.0, 2.0, -np.inf])}
    assert kept(explanation, (1,), seen(away=[3])) == {"score": {0: 0.5, 1: 1.0}, "cost": {1: 1.0, 2: 2.0}}
    unpaid = seen(prices=[10, 30, 10, 10], bytes_left=20)
    assert kept(explanation, (0,), unpaid) == {"score": {0: 0.5, 3: 2.0}, "cost": {2: 2.0}}
    assert kept({"score": np.full(4, np.nan)}, (0,), seen()) == {}


def test_six_digits_are_kept():
    explanation = {"score": np.array([1 / 3, 123456789.0, -1e-12 / 3, 0.0])}
    assert kept(explanation, (0,), seen()) == {"score": {0: 0.333333, 1: 123457000.0, 2: -3.33333e-13, 3: 0.0}}


def test_of_many_clients_the_cohort_s_are_kept_and_those_of_the_agent_s_choice():
    many = MOST_EXPLAINED + 1
    values = np.arange(many, dtype=np.float64)
    whole = {"score": {client: float(client) for client in range(many - 1)}}
    assert kept({"score": values[:-1]}, (3, 7), seen(many - 1)) == whole
    assert kept({"score": values}, (3, 7), seen(many)) == {"score": {3: 3.0, 7: 7.0}}
    agent = values.copy()
    agent[9] = np.nan
    found = kept({"agent": agent, "score": values}, (3, 7), seen(many, away=[many - 1]))
    assert found["agent"] == {client: float(client) for client in (3, 7, many - 3, many - 2)}
    assert found["score"].keys() == found["agent"].keys()
    few = np.full(many, np.nan)
    few[5] = 1.0
    assert kept({"agent": few}, (3, 7), seen(many)) == {"agent": {5: 1.0}}


def test_a_row_tells_the_terms_of_its_round():
    selector = {"name": f"{__name__}:Explained", "client": 2}
    _, rows, _ = run(toy(selector=selector))
    assert [row.explanation for row in rows] == [{"score": {k: float(f"{k / 3:.6g}") for k in range(5)}}] * 3
    assert [row.explanation for row in run(toy())[1]] == [{}] * 3


def test_a_run_is_the_same_whether_or_not_its_selector_explains():
    explained, _, _ = run(toy(selector={"name": f"{__name__}:Explained", "client": 2}))
    plain, _, _ = run(toy(selector={"name": "helpers.toy_methods:Without", "client": 2}))
    assert same(explained.sharing, plain.sharing)
    assert explained.bytes == plain.bytes


def test_terms_of_other_numbers_of_clients_are_refused():
    with looped(toy(selector={"name": f"{__name__}:Explained", "count": 3})) as (loop, _):
        state = loop.start()
        with pytest.raises(FedgraftError, match=r"Explained told the term 'score' with shape \(3,\); it must be one"):
            loop.step(state)


def test_who_chooses_nobody_is_not_asked_why():
    with looped(toy(selector=scripted(()))) as (loop, _):
        state = loop.start()
        assert loop.step(state) is None
