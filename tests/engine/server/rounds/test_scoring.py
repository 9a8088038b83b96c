"""How models are scored: by charged messages or by the experimenter, and what a client costs that cannot be scored."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.exchange import Replies
from fedgraft.wire import Message
from helpers.toy_runs import SGD, looped, run, same, scripted, toy

AT_CLIENTS = {"at": "clients"}


def sums_of(validation, test):
    """A reply with squared errors and counts."""
    return Message("evaluate", 1, {}, {"validation": np.array(validation, float), "test": np.array(test, float)})


def test_sums_are_added_and_a_negative_one_costs_the_client_its_part():
    with looped(toy()) as (loop, _):
        scorer = loop._messenger.scorer
    replies = Replies(
        {2: sums_of([4, 2], [9, 1]), 0: sums_of([1, 1], [0, 0]), 1: sums_of([1, -1], [1, 1])}, {3: "gone"}
    )
    scoring = scorer.summed(replies)
    assert scoring.sums == {
        "validation": {"squared_error": 5.0, "count": 3.0},
        "test": {"squared_error": 9.0, "count": 1.0},
    }
    assert list(scoring.clients) == [0, 2]
    assert scoring.clients[2]["test"] == {"squared_error": 9.0, "count": 1.0}
    assert scoring.failed == {3: "gone", 1: "scored a negative sum"}
    nobody = scorer.summed(Replies(failed={3: "gone"}))
    assert (nobody.sums["test"], nobody.clients) == ({"squared_error": 0.0, "count": 0.0}, {})


def test_the_experimenter_measures_for_free_and_encodes_equal_models_once():
    with looped(toy()) as (loop, runtime):
        loop.start()
        handed, measure, before = [], runtime.inner.measure, dict(loop.ledger.totals)
        runtime.inner.measure = lambda requests, models, seconds: (
            handed.append(dict(models)) or measure(requests, models, seconds)
        )
        one = loop._plan.first
        two = {name: array + 1 for name, array in one.items()}
        scoring = loop._messenger.scorer.measure({0: one, 1: one, 2: two, 3: one}, 1)
        alone = loop._messenger.scorer.measure({2: two}, 1)
    (models, _) = handed
    assert models[0] is models[1] is models[3] is not models[2]
    assert list(scoring.clients) == [0, 1, 2, 3]
    assert scoring.clients[2] == alone.clients[2] == alone.sums
    assert loop.ledger.totals == before


def nan_sums(kind, round, client, reply):
    if kind != "evaluate" or client != 2:
        return reply
    sums = {split: np.array([np.nan, 1.0]) for split in ("validation", "test")}
    return wire.encode(Message("evaluate", round, arrays=sums), Protocol.of(toy().plan).reply_layouts["evaluate"])


def no_sums(kind, round, client, reply):
    return wire.encode(Message("evaluate", round)) if kind == "evaluate" and client == 2 else reply


@pytest.mark.parametrize("tamper", [nan_sums, no_sums])
def test_a_scoring_that_lacks_a_client_is_reported_and_is_no_score(tamper):
    experiment = toy(evaluation=AT_CLIENTS)
    state, rows, _ = run(experiment, tamper)
    whole, whole_rows, _ = run(experiment)
    assert same(state.sharing, whole.sharing)
    for row, honest, point in zip(rows, whole_rows, state.curve[1:], strict=True):
        assert row.failed.keys() == {2}
        assert row.failed[2].startswith("scoring: ")
        assert honest.validation is not None
        assert (row.validation, row.test, point["lacking"]) == (None, None, 1)
        assert np.isnan([point["validation"], point["test"]]).all()
    assert state.clients.failures == {"setup": 0, "probe": 0, "training": 0, "scoring": 3}
    assert state.scores.keys() == {"0", "1", "3", "4"}
    assert (whole.best["round"], state.best["round"]) == (3, 0), "the last that all were scored with"
    assert "lacking" not in whole.curve[-1]


def test_where_nobody_is_scored_the_best_is_what_was_scored_before():
    def tamper(kind, round, client, reply):
        return ClientFailed("gone") if kind == "evaluate" else reply

    state, rows, _ = run(toy(evaluation=AT_CLIENTS), tamper)
    assert all(row.validation is None for row in rows)
    assert state.best["round"] == 0  # scored by the experimenter


def test_scoring_at_clients_is_charged_and_scores_the_same():
    server, clients = (run(toy(evaluation={"at": at}))[0] for at in ("server", "clients"))
    assert server.bytes["evaluation"] == 0
    per_round = 5 * (16 + 4 * 8)  # the model down; two splits of two float64 up
    assert clients.bytes["evaluation"] == 3 * per_round
    assert [point["validation"] for point in server.curve] == [point["validation"] for point in clients.curve]
    assert same(server.sharing, clients.sharing)


# A scoring that lacks clients is no score.


def unscored(*clients, rounds=range(99)):
    def tamper(kind, round, client, reply):
        return ClientFailed("gone") if kind == "evaluate" and client in clients and round in rounds else reply

    return tamper


def test_nobody_is_told_a_score_that_lacks_clients():
    experiment = toy(evaluation=AT_CLIENTS, rounds=3, selector=scripted((0, 1), (1, 2), (2, 3)))
    state, rows, _ = run(experiment, unscored(4, rounds=[2]))
    assert [told["score"] for told in state.selector["learnt"]] == [rows[0].validation, None, rows[2].validation]
    assert [row.validation is None for row in rows] == [False, True, False]
    assert state.losses == run(experiment)[0].losses
    assert state.clients.failures == {"setup": 0, "probe": 0, "training": 0, "scoring": 1}


def test_a_score_that_lacks_clients_is_neither_best_nor_counted_by_patience():
    diverging = {"evaluation": AT_CLIENTS, "training": {**SGD, "learning_rate": 1.2}, "rounds": 50, "patience": 3}
    assert run(toy(**diverging))[0].round == 3
    state, _, _ = run(toy(**diverging), unscored(0, 1, rounds=[2, 3]))
    assert (state.round, state.finished, state.best["round"]) == (5, "patience", 0)
    assert [point.get("lacking", 0) for point in state.curve] == [0, 0, 2, 2, 0, 0]
    state, _, _ = run(toy(evaluation=AT_CLIENTS, rounds=3), unscored(3, rounds=[3]))
    assert state.best["round"] == 2


def test_a_client_without_examples_of_a_split_is_not_lacking():
    shards = toy().data.load(1)
    shards[4] = replace(shards[4], split=np.where(shards[4].split == 1, 0, shards[4].split))
    state, rows, _ = run(toy(evaluation=AT_CLIENTS), shards=shards)
    assert all(np.isfinite(row.validation) for row in rows)
    assert state.clients.failures["scoring"] == 0
    assert math.isnan(state.scores["4"]["validation"])


def test_who_never_joined_is_not_scored():
    def tamper(kind, round, client, reply):
        return ClientFailed("off") if kind == "hello" and client == 3 else reply

    state, rows, runtime = run(toy(evaluation=AT_CLIENTS), tamper)
    assert state.joined == [0, 1, 2, 4]
    assert state.clients.failures == {"setup": 1, "probe": 0, "training": 0, "scoring": 0}
    assert {client for kind, _, client, _ in runtime.sent if kind == "evaluate"} == {0, 1, 2, 4}
    assert all(row.validation is not None for row in rows)


@pytest.mark.parametrize("fault", ["hang", "raise"])
def test_a_client_that_fails_in_scoring_alone_costs_the_round_its_score(fault):
    broken = {"name": "helpers.toy:Line", "fault": fault, "faulty_points": 120, "at": "scoring"}
    runtime = {"workers": 1, "deadline_seconds": 1.5}
    state, rows, _ = run(toy(task=broken, runtime=runtime, rounds=1))
    expected, _, _ = run(toy(rounds=1))
    reason = {"hang": "no reply within the deadline", "raise": "ValueError: this client is broken"}[fault]
    assert [row.failed for row in rows] == [{2: f"scoring: {reason}"}]
    assert rows[0].validation is rows[0].test is None
    assert same(state.sharing, expected.sharing)
    assert state.clients.failures["scoring"] == 2, "before the first round, and after it"
