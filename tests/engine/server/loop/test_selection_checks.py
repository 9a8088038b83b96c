"""What a selector's choices are held to."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.contracts import Selection, View
from fedgraft.engine.server.loop.choosing import check_clients, check_selection
from fedgraft.errors import BudgetError, FedgraftError
from fedgraft.experiment.recipes import discovery
from helpers.tiers import long_but_for
from helpers.toy_runs import gone, length, looped, scripted, toy

UNLIKE = ("all", "clustered", "fedmarl", "harmony", "oort", "poisson", "power_of_choice", "reputation_ucb", "rpfl")
"""Selectors that choose, or learn, in a way of their own."""

PRICES = np.array([10, 20, 30, 40])


def seen(bytes_left=None):
    """What a selector saw: four clients, of which client 2 is not available."""
    available = np.array([True, True, False, True])
    return View(1, np.ones(4, np.int64), PRICES, PRICES // 10, np.zeros(4), available, bytes_left)


@pytest.mark.parametrize("clients", [[0, 1, 3], [3], []])
def test_available_clients_that_are_paid_for_are_fine(clients):
    check_clients("Any", "selected", clients, PRICES, seen())
    check_clients("Any", "selected", clients, PRICES, seen(bytes_left=70))


@pytest.mark.parametrize("clients", [[0, 2], [1, 0], [1, 1], [4], [-1], [np.int64(0)], [True], [0.0]])
def test_others_are_refused(clients):
    with pytest.raises(FedgraftError, match=r"^Any probed .*; available, each once and ascending, are \[0, 1, 3\]\.$"):
        check_clients("Any", "probed", clients, PRICES, seen())


def test_a_choice_is_held_to_its_own_prices_and_the_bytes_that_are_left():
    check_clients("Any", "selected", [0, 3], PRICES, seen(bytes_left=50))
    with pytest.raises(FedgraftError, match=r"^Any selected clients for 50 bytes with 49 left\.$"):
        check_clients("Any", "selected", [0, 3], PRICES, seen(bytes_left=49))
    check_clients("Any", "probed", [0, 3], seen().bytes_per_probe, seen(bytes_left=5))


@pytest.mark.parametrize("weights", [(1.0,), (1.0, -1.0), (1.0, math.inf), (math.nan, 1.0)])
def test_weights_are_one_each_finite_and_not_negative(weights):
    check_selection("Any", Selection((0, 1), (0.0, 3.0)), seen())
    with pytest.raises(FedgraftError, match=r"^Any gave the weights .* to the clients \[0, 1\]"):
        check_selection("Any", Selection((0, 1), weights), seen())


# A budget is a promise, whoever selects.

TOLD_BY_A_SAMPLER = {"rafhgl": "active"}
"""Selectors that need a sampler's reports, and one that tells them."""


@pytest.mark.parametrize("selector", long_but_for(UNLIKE, discovery.names("selectors")))
@settings(max_examples=12, deadline=None)
@given(
    budget=st.integers(1, 9000),
    clients=st.integers(1, 5),
    codec=st.sampled_from(["identity", "float16", "quantized"]),
    at=st.sampled_from(["server", "clients"]),
    every=st.integers(1, 3),
    failing=st.sets(st.integers(1, 4), max_size=1),
)
def test_the_byte_budget_is_never_exceeded(selector, budget, clients, codec, at, every, failing):
    told = selector in TOLD_BY_A_SAMPLER
    data = ("laws.parted:PartedLines", 40) if told else ("helpers.toy:Lines", 8)
    experiment = toy(
        data={"name": data[0], "clients": clients, "points": data[1]},
        selector=selector,
        sampler=TOLD_BY_A_SAMPLER.get(selector, "all"),
        codec=codec,
        budget={"bytes": budget},
        evaluation={"at": at, "every": every},
        rounds=6,
    )
    rows = []
    with looped(experiment, gone(*failing)) as (loop, runtime):
        try:
            state = loop.run(loop.start(), lambda state, row: rows.append(row))
        except BudgetError:
            assert not any(kind in ("train", "probe", "evaluate") for kind, *_ in runtime.sent)
        else:
            assert rows
            assert state.finished in ("rounds", "budget")
        messages = [message for *_, message in [*runtime.sent, *runtime.received]]
    spent = sum(map(length, messages))
    assert loop.ledger.total == spent <= budget


# A selector is held to its contract.


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        (scripted((0, 0)), r"Scripted selected \[0, 0\]; available, each once and ascending, are \[0, 1, 2, 3, 4\]"),
        (scripted((1, 0)), r"Scripted selected \[1, 0\]"),
        (scripted((0, 5)), r"Scripted selected \[0, 5\]"),
        (scripted((-1, 0)), r"Scripted selected \[-1, 0\]"),
        (scripted((0,), probed=[0, 7]), r"Scripted probed \[0, 7\]"),
        (scripted((0, 1), weights=[1.0]), r"gave the weights \(1\.0,\) to the clients \[0, 1\]"),
        (scripted((0, 1), weights=[1.0, -1.0]), "it must be one each, finite and >= 0"),
        (scripted((0, 1), weights=[1.0, math.nan]), "it must be one each, finite and >= 0"),
    ],
)
def test_a_selector_that_breaks_its_contract_is_caught_before_anything_is_sent(selector, reason):
    with looped(toy(selector=selector)) as (loop, runtime):
        state = loop.start()
        before = len(runtime.sent)
        with pytest.raises(FedgraftError, match=reason):
            loop.step(state)
        assert len(runtime.sent) == before


@pytest.mark.parametrize("options", [{"cohorts": [[0, 1, 2, 3, 4]]}, {"cohorts": [[0]], "probed": [0, 1, 2, 3, 4]}])
def test_a_selector_that_breaks_the_budget_is_caught_before_anything_is_sent(options):
    selector = {"name": "helpers.toy_methods:Scripted", **options}
    with looped(toy(selector=selector, budget={"bytes": 1200})) as (loop, runtime):
        state = loop.start()
        before = len(runtime.sent)
        with pytest.raises(FedgraftError, match=r"Scripted (selected|probed) clients for 1\d{3} bytes with 9\d\d left"):
            loop.step(state)
        assert len(runtime.sent) == before
