"""Scores that a client reports of its own validation split: of the model as it was received, and as it was trained."""

import pytest

from fedgraft import wire
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.experiment.job import load
from helpers.toy_runs import looped

SHOPS = {
    **{"data.name": "catalogue", "data.clients": 3, "rounds": 2, "baselines": [], "runtime.workers": 0},
    **{"selector.clients": 3, "selector.reputation": "paired", "clock.late": "wait"},
}


def test_the_score_before_is_that_of_the_model_that_was_sent_and_the_one_after_becomes_the_next_ones_baseline():
    experiment = load("reputation_ucb", SHOPS)
    shards = experiment.shards()
    experiment = experiment.fitted(shards)
    plan = experiment.plan
    with looped(experiment, None, shards) as (loop, runtime):
        state = loop.run(loop.start(), lambda state, row: None)
    told = [
        wire.decode(reply, Protocol.of(plan).reply_layouts, Protocol.of(plan).report("train"))
        for kind, *_, reply in runtime.received
        if kind == "train"
    ]
    assert len(told) == 6
    assert all({"score", "score_before"} <= message.report.keys() for message in told)
    assert any(message.report["score"] != message.report["score_before"] for message in told)
    first = [message.report["score_before"] for message in told if message.round == 1]
    model = plan.build_model()
    for client, before in enumerate(first):
        data = plan.task.prepare(shards[client], {})
        sums = plan.task.evaluate(model.module.eval(), data)["validation"]
        assert before == pytest.approx(plan.task.score(sums), abs=1e-6)
    assert state.round == 2
