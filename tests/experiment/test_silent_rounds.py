"""Rounds in which nothing is collected: who trains, what travels, what is charged."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.experiment.running.runner import execute
from helpers.toy_runs import SGD, looped, run, same, toy

NOW_AND_THEN = {"sharing": {"name": "cefgl", "probability": 0.5}, "rounds": 12, "seed": 3}
ALONE = {"sharing": {"name": "cefgl", "probability": 0.0}}
ALWAYS = {"sharing": {"name": "cefgl", "probability": 1.0}}


def kinds(runtime):
    """{round: kinds of messages}, without the set-up."""
    found = {}
    for kind, round, _, _ in runtime.sent:
        if round:
            found.setdefault(round, set()).add(kind)
    return found


def test_a_round_collects_or_it_does_not():
    state, rows, runtime = run(toy(**NOW_AND_THEN))
    seen = kinds(runtime)
    assert set.union(*seen.values()) == {"train", "alone"}
    assert all(len(kind) == 1 for kind in seen.values())
    assert state.merges == sum(kind == {"train"} for kind in seen.values())
    assert [row.selected for row in rows] == [(0, 1, 2, 3, 4)] * 12


def test_nothing_is_sent_but_a_new_model_to_those_who_lack_it():
    with looped(toy(**NOW_AND_THEN)) as (loop, runtime):
        state = loop.start()
        spent = loop.ledger.total
        merged, held = 0, dict.fromkeys(range(5), 0)
        while not state.finished:
            row = loop.step(state)
            entries = [entry for entry in loop.ledger.drain() if entry.round == row.round]
            requests = {c: blob for _, r, c, blob in runtime.sent if r == row.round}
            models = {
                c
                for c, blob in requests.items()
                if wire.decode(blob, Protocol.of(loop._plan).request_layouts).arrays is not None
            }
            assert models == {client for client in requests if held[client] != merged}
            held.update(dict.fromkeys(models, merged))
            up = sum(entry.bytes for entry in entries if entry.direction == "up")
            down = sum(entry.bytes for entry in entries if entry.direction == "down")
            collected = kinds(runtime)[row.round] == {"train"}
            if collected:
                assert up == sum(len(blob) for _, r, _, blob in runtime.received if r == row.round)
                assert down == sum(map(len, requests.values()))
            else:
                assert up == 0
                assert down == sum(len(requests[client]) for client in models)
            merged += collected
            spent += up + down
        assert loop.ledger.total == spent


def test_the_first_model_is_sent_to_nobody():
    _, _, runtime = run(toy(**ALWAYS))
    layouts = Protocol.of(toy(**ALWAYS).plan).request_layouts
    first = [wire.decode(blob, layouts).arrays for kind, round, _, blob in runtime.sent if round == 1]
    assert first == [None] * 5


def test_without_any_collecting_round_only_the_set_up_costs_bytes():
    state, rows, _ = run(toy(**ALONE))
    assert {row.bytes for row in rows} == {0}
    assert state.merges == 0
    assert state.bytes["model"] == 0


def test_who_was_last_selected_trains_on():
    changes = {**NOW_AND_THEN, "selector": {"name": "random", "clients": 2}}
    _, rows, runtime = run(toy(**changes))
    cohort = (0, 1, 2, 3, 4)  # until the first that was selected, everybody
    for row in rows:
        if kinds(runtime)[row.round] == {"train"}:
            cohort = row.selected
            assert len(cohort) == 2
        assert row.selected == cohort


def test_a_selector_hears_nothing_of_silent_rounds():
    changes = {**NOW_AND_THEN, "selector": {"name": "oort", "clients": 2}}
    state, _, runtime = run(toy(**changes))
    collected = [round for round, kind in kinds(runtime).items() if kind == {"train"}]
    assert set(np.asarray(state.selector["last_round"]).tolist()) <= {0, *collected}


@pytest.mark.slow
@given(budget=st.integers(1_000, 4_000), probability=st.sampled_from([0.2, 0.6, 1.0]), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
def test_the_byte_budget_is_never_exceeded(budget, probability, seed):
    state, _, _ = run(
        toy(sharing={"name": "cefgl", "probability": probability}, rounds=15, seed=seed, budget={"bytes": budget})
    )
    assert state.bytes["down"] + state.bytes["up"] <= budget


@pytest.mark.parametrize("codec", ["identity", "float16", {"name": "quantized", "bits": 3, "rounding": "stochastic"}])
def test_both_ends_hold_the_very_same_model(codec):
    with looped(toy(**{**NOW_AND_THEN, "codec": codec})) as (loop, runtime):
        state = loop.start()
        while not state.finished:
            loop.step(state)
            for client, blob in runtime.inner.memories(changed=False):
                memory = wire.unpack(blob)
                if "held" in memory and state.exchange.broadcast["held"].get(str(client)) == state.merges:
                    assert same(dict(memory["held"]), state.sharing["model"])
        assert state.merges > 1


def test_workers_make_no_difference_and_neither_does_a_resume():
    changes = {**NOW_AND_THEN, "codec": {"name": "quantized", "bits": 4, "rounding": "stochastic"}}
    here = execute(toy(**changes))
    there = execute(toy(**changes, runtime={"workers": 2}))
    assert here["digest"] == there["digest"]
    assert here["bytes"] == there["bytes"]


def test_a_client_that_is_cut_off_keeps_what_it_has():
    """A failed client is sent the model again, since nobody knows whether it has it."""
    failing = {"left": 2}

    def tamper(kind, round, client, reply):
        if kind in ("train", "alone") and client == 1 and round > 1 and failing["left"]:
            failing["left"] -= 1
            return b"nonsense"
        return reply

    state, rows, _ = run(toy(**{**ALWAYS, "rounds": 5}), tamper)
    assert [sorted(row.failed) for row in rows] == [[], [1], [1], [], []]
    held = state.exchange.broadcast["held"]
    assert held["1"] == held["0"] == state.merges - 1


def test_learning_rates_go_on_in_silent_rounds():
    changes = {**ALONE, "training": {**SGD, "schedule": "linear", "final_rate": 0.0}, "rounds": 4}
    _, _, runtime = run(toy(**changes))
    progress = [wire.decode(blob).progress for kind, _, client, blob in runtime.sent if kind == "alone" and client == 0]
    assert progress == sorted(progress)
    assert len(set(progress)) == 4


def test_whoever_holds_the_model_is_not_sent_it_to_be_scored():
    """What is scored at clients is what they hold, to the last bit, and sent to those who lack it and nobody else."""
    changes = {**NOW_AND_THEN, "codec": {"name": "quantized", "bits": 3}}
    here, _, _ = run(toy(**changes))
    there, _, runtime = run(toy(**changes, evaluation={"at": "clients"}))
    assert [point["test"] for point in there.curve] == [point["test"] for point in here.curve]
    layouts = Protocol.of(toy(**changes).plan).request_layouts
    sent = [
        wire.decode(blob, layouts).arrays is not None
        for kind, round, _, blob in runtime.sent
        if kind in ("train", "alone", "evaluate") and round
    ]
    assert sum(sent) == 5 * there.merges  # each model once to each client


def test_a_probe_long_ago_is_not_what_a_client_goes_on_from():
    changes = {**ALWAYS, "selector": {"name": "power_of_choice", "clients": 2, "candidates": 4}, "rounds": 8}
    here, _, _ = run(toy(**changes))
    there, _, _ = run(toy(**changes, evaluation={"at": "clients"}))
    assert same(here.sharing, there.sharing)
