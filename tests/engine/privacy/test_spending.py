"""What a site has told over all runs, for each unit: epsilons of different units are not one number."""

import math

import pytest

from fedgraft.engine.privacy.policy import Policy
from fedgraft.engine.privacy.spending import Spending, contains
from fedgraft.secrets.gaussian import gaussian_epsilon

DELTA = 1e-5


def line(unit, noise=4.0):
    return {"unit": unit, "noise": noise, "divergence": 0.0, "failure": 0.0}


def answers(unit, epsilon=1.0):
    return {"unit": unit, "answered": epsilon}


def spent(*lines, **policy):
    return Spending(Policy(delta=DELTA, **policy), lines)


def gaussian(*noises):
    """Epsilon of sums with these noises, together: squares of 1 / noise add."""
    return gaussian_epsilon(1 / math.sqrt(sum(1 / noise**2 for noise in noises)), DELTA)


def test_replies_of_one_unit_are_composed():
    assert spent(line("node"), line("node"), line("node", 2.0)).epsilons == {"node": pytest.approx(gaussian(4, 4, 2))}


def test_what_hides_a_node_says_nothing_of_a_client():
    """By hand: the client's own sum at its noise; a node is in it too, and may make the client's part another one."""
    found = spent(line("node"), line("client", 6.0)).epsilons
    assert found == {"client": pytest.approx(gaussian(6)), "node": pytest.approx(gaussian(4, 3))}


def test_what_hides_a_user_covers_its_ratings_and_not_the_other_way_round():
    assert spent(line("user"), line("rating")).epsilons == {
        "rating": pytest.approx(gaussian(4, 2)),
        "user": pytest.approx(gaussian(4)),
    }


def test_units_that_have_nothing_in_common_are_counted_apart():
    assert spent(line("node"), line("graph", 2.0)).epsilons == {
        "node": pytest.approx(gaussian(4)),
        "graph": pytest.approx(gaussian(2)),
    }


def test_answers_at_random_are_hidden_whatever_they_become():
    assert spent(answers("client"), answers("node")).epsilons == {
        "client": pytest.approx(1.0, abs=1e-3),
        "node": pytest.approx(2.0, abs=1e-3),
    }


@pytest.mark.parametrize("order", [("node", "client"), ("client", "node")])
def test_the_limit_holds_for_each_unit_in_whatever_order(order):
    """The client's own number would fit after both; that of its nodes does not."""
    limit = gaussian(4, 3) - 0.01
    first, second = (line(unit, {"node": 4.0, "client": 6.0}[unit]) for unit in order)
    ledger = spent(epsilon=limit)
    assert ledger.refusal(first) == ""
    ledger.note(first)
    assert f"epsilon would be {gaussian(4, 3):.4g} of each node at delta 1e-05" in ledger.refusal(second)
    assert spent(first, epsilon=limit + 0.02).refusal(second) == ""


def test_a_line_s_number_is_its_unit_s():
    ledger = spent(line("node"))
    assert ledger.note(line("graph", 2.0)) == pytest.approx(gaussian(2))
    assert ledger.note(line("node")) == pytest.approx(gaussian(4, 4))


@pytest.mark.parametrize(
    ("larger", "unit", "holds"),
    [
        *(("client", unit, True) for unit in ("node", "graph", "rating", "user")),
        *(("user", "rating", True), ("rating", "user", False), ("node", "client", False), ("client", "client", False)),
        *(("graph", "node", False), ("node", "graph", False)),
    ],
)
def test_which_unit_contains_which(larger, unit, holds):
    assert contains(larger, unit) is holds


def test_a_unit_that_this_process_does_not_know_may_contain_any():
    """A run's module declared it; where another run does not import that, nothing is understated."""
    assert all(contains("household", unit) for unit in ("node", "graph", "rating", "user"))
    assert not contains("node", "graph")
    assert not contains("household", "household")
