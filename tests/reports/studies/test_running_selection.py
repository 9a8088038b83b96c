"""What a selector takes is measured, and changes nothing."""

from fedgraft.contracts import ProbingSelector
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute_on
from fedgraft.reports.studies.running import timed

TINY = {"data.name": "blocks", "data.nodes": 60, "data.clients": 4, "rounds": 3, "runtime.workers": 0, "baselines": []}


def test_a_run_with_a_measured_selector_is_the_same():
    experiment = load("fedlocal", {**TINY, "selector.name": "power_of_choice", "selector.clients": 2})
    shards = experiment.data.load(1)
    experiment = experiment.fitted(shards)
    seconds: list[float] = []
    measured = timed(experiment, seconds)
    assert isinstance(measured.selector, ProbingSelector)
    assert execute_on(measured, shards, {})["digest"] == execute_on(experiment, shards, {})["digest"]
    assert len(seconds) == 3 * 3  # probe, choice and update, in three rounds
    assert all(each > 0 for each in seconds)
