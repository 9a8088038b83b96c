"""What a selector sees before a round."""

import pytest

from fedgraft.contracts import ClientFailed
from fedgraft.engine.server.loop.views import losses_of
from fedgraft.engine.server.run_state import RunState
from helpers.toy_runs import looped, toy

CLOCK = {"mbit_per_second": 8.0, "examples_per_second": 100.0, "latency_seconds": 0.5, "spread": 0.0}


def opened(tamper=None, **changes):
    """The views of a run and its state after the set-up."""
    with looped(toy(**changes), tamper) as (loop, _):
        state = loop.start()
    return loop, loop._views, state


def test_sizes_prices_and_seconds_by_hand():
    loop, views, state = opened(clock=CLOCK, training={"epochs": 2}, rounds=7)
    view = views.of(state, 3)
    assert (view.round, view.rounds, view.epochs, view.better, view.clients) == (3, 7, 2, "lower", 5)
    assert view.samples.tolist() == [20, 40, 60, 20, 40]
    limits = loop._messenger.limits
    assert set(view.bytes_per_client.tolist()) == {limits.most_bytes("train")}
    assert set(view.bytes_per_probe.tolist()) == {limits.most_bytes("trial")} == {limits.most_bytes("probe") + 4}
    moved = limits.most_bytes("train") / 1e6
    assert view.seconds == pytest.approx(0.5 + moved + 2 * view.samples / 100)
    assert (view.bytes_left, view.bytes_budget, view.probed) == (None, None, {})


def test_what_is_of_all_rounds_is_made_once_and_cannot_be_changed():
    _, views, state = opened()
    one, two = views.of(state, 1), views.of(state, 2)
    for name in ("samples", "bytes_per_client", "bytes_per_probe", "seconds", "available"):
        assert getattr(one, name) is getattr(two, name)
        with pytest.raises(ValueError, match="read-only"):
            getattr(one, name)[0] = 0


def test_who_has_no_examples_or_never_joined_is_not_available():
    def tamper(kind, round, client, reply):
        return ClientFailed("off") if kind == "hello" and client == 3 else reply

    _, views, state = opened(tamper)
    assert views.of(state, 1).available.tolist() == [True, True, True, False, True]


@pytest.mark.parametrize("at", ["server", "clients"])
def test_what_is_left_of_a_budget_is_less_what_the_round_costs_whoever_trains(at):
    loop, views, state = opened(budget={"bytes": 10_000}, evaluation={"at": at})
    fixed = 5 * loop._messenger.limits.most_bytes("evaluate") if at == "clients" else 0
    view = views.of(state, 1)
    assert views.fixed_bytes == fixed
    assert (view.bytes_left, view.bytes_budget) == (10_000 - loop.ledger.total - fixed, 10_000)
    loop.ledger.charge(1, 0, "down", "model", 9_999)
    assert views.of(state, 1).bytes_left == 0, "never negative"


def test_losses_are_of_the_first_model_and_of_the_last_that_was_scored():
    state = RunState([], None, losses={"validation": [4.0, 1.0], "test": [3.0]})
    assert losses_of(state) == {"validation": (4.0, 1.0), "test": (3.0, 3.0)}
    _, views, started = opened()
    assert views.of(started, 1).losses == losses_of(started) == {}, "the toy task tells none"
