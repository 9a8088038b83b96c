"""Who learns from the score after each round is told where most rounds have none."""

import pytest

from fedgraft.experiment.job import load
from fedgraft.experiment.running.remarks import stale_scores
from fedgraft.experiment.running.runner import execute
from helpers.tiny import TINY


@pytest.mark.parametrize(
    ("selector", "every", "said"),
    [("fedacs", 2, "FedACS learns from the score"), ("fedacs", 1, ""), ("random", 2, ""), ("round_robin", 2, "")],
)
def test_it_is_said_of_those_who_learn_from_scores(selector, every, said):
    experiment = load("fedacs", {**TINY, "selector.name": selector, "evaluation.every": every})
    found = stale_scores(experiment.selector, experiment.plan.sampler, experiment.settings.evaluation.every)
    assert found.startswith(said)
    assert bool(found) == bool(said)
    assert not found or "evaluation.every = 1" in found


def test_a_run_warns_and_its_summary_keeps_it(caplog):
    summary = execute(load("fedacs", {**TINY, "rounds": 2, "evaluation.every": 2}))
    assert "FedACS learns from the score after each round" in caplog.text
    assert any("FedACS learns" in remark for remark in summary["remarks"])
