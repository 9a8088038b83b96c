"""Clients whose connection is down."""

import numpy as np
import pytest
from scipy import stats

from fedgraft import wire
from fedgraft.engine.server.clock import DISCONNECTED, Dropout
from fedgraft.errors import InputError
from helpers.toy_runs import looped, run, toy


def test_nobody_drops_out_by_default():
    assert Dropout().dropped(1000, 1, 1) == frozenset()


def test_a_fixed_rate_is_each_client_s_chance():
    shares = [len(Dropout(rate=0.3).dropped(1000, round, 1)) / 1000 for round in range(1, 101)]
    assert np.mean(shares) == pytest.approx(0.3, abs=0.01)


def test_a_rate_per_round_comes_from_the_beta_distribution():
    shares = [len(Dropout(alpha=10, beta=1).dropped(2000, round, 1)) / 2000 for round in range(1, 401)]
    assert stats.kstest(shares, stats.beta(10, 1).cdf).pvalue > 0.01


def test_a_round_of_a_seed_is_always_the_same():
    dropout = Dropout(rate=0.5)
    assert dropout.dropped(50, 3, 7) == dropout.dropped(50, 3, 7)
    assert len({dropout.dropped(50, round, seed) for round in (1, 2) for seed in (1, 2)}) == 4


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"rate": 1.5}, r"dropout\.rate must be in \[0, 1\]; got 1\.5"),
        ({"alpha": -1, "beta": 1}, r"dropout\.alpha must be >= 0.*got -1"),
        ({"alpha": 1}, "dropout.alpha and dropout.beta belong together; got 1 and 0.0"),
        ({"alpha": 1, "beta": 1, "rate": 0.5}, "not both"),
    ],
)
def test_impossible_options_are_refused(options, reason):
    with pytest.raises(InputError, match=reason):
        Dropout(**options)


def test_who_drops_out_misses_the_round_and_costs_nothing():
    experiment = toy(dropout={"rate": 0.5}, rounds=6)
    _, rows, runtime = run(experiment)
    for row in rows:
        dropped = experiment.settings.dropout.dropped(5, row.round, 1)
        asked = {client for kind, round, client, _ in runtime.sent if round == row.round}
        assert asked == set(range(5)) - dropped
        assert row.failed == dict.fromkeys(sorted(dropped), DISCONNECTED)
        assert row.selected == (0, 1, 2, 3, 4)
    assert {len(row.failed) for row in rows} > {0} or any(row.failed for row in rows)


def test_a_round_of_nobody_is_a_round_and_no_error():
    state, rows, runtime = run(toy(dropout={"rate": 1.0}))
    assert [row.bytes for row in rows] == [0, 0, 0]
    assert {round for _, round, _, _ in runtime.sent} == {0}
    assert state.finished == "rounds"
    assert len(state.curve) == 4


def test_a_dropped_client_comes_back_with_its_own_state():
    changes = {"dropout": {"rate": 0.5}, "rounds": 8, "sharing": {"name": "cefgl", "probability": 1.0}}
    with looped(toy(**changes)) as (loop, runtime):
        state, before = loop.start(), {}
        while not state.finished:
            row = loop.step(state)
            memories = dict(runtime.inner.memories(changed=False))
            for client in row.failed:
                if client in before:
                    assert _own(memories[client]) == _own(before[client])
            before = memories


def test_whoever_is_probed_may_be_gone():
    changes = {"dropout": {"rate": 0.6}, "rounds": 6, "selector": {"name": "power_of_choice", "clients": 2}}
    _, rows, _ = run(toy(**changes))
    reasons = {reason for row in rows for reason in row.failed.values()}
    assert f"probe: {DISCONNECTED}" in reasons


def test_silent_rounds_have_nobody_to_miss():
    changes = {"dropout": {"rate": 0.9}, "rounds": 5, "sharing": {"name": "cefgl", "probability": 0.0}}
    _, rows, _ = run(toy(**changes))
    assert all(not row.failed and row.selected == (0, 1, 2, 3, 4) for row in rows)


def _own(memory):
    return wire.pack(wire.unpack(memory).get("sharing"))
