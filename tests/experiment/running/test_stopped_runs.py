"""A run that was stopped: its best model so far answers."""

import logging

import pandas as pd
import pytest

import fedgraft
from fedgraft.errors import Interrupted
from fedgraft.experiment import job as jobs
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.running.runner import execute, resume
from helpers.tiny import TINY

PAIRS = pd.DataFrame({"user": ["user-01", "user-02"], "item": ["item-01", "item-02"]})


class Stop:
    """A watcher that stops the run after some rounds."""

    def __init__(self, after):
        self._after = after

    def after_round(self, state, row):
        if state.round == self._after:
            raise Interrupted("stopped", 2)


def given(sharing):
    changes = {"rounds": 4, "training.schedule": "constant", "checkpoint.every_seconds": 0, "sharing.name": sharing}
    return {**TINY, **changes}


@pytest.fixture
def stopped(tmp_path, sharing):
    """The folder of a run that was stopped after two of four rounds."""
    with pytest.raises(Interrupted):
        execute(jobs.load("fedacs", given(sharing)), tmp_path / "stopped", Stop(2))
    return tmp_path / "stopped"


@pytest.mark.parametrize("sharing", ["fedavg", "fedper"])
def test_its_best_model_so_far_answers_as_that_of_a_run_of_so_many_rounds(tmp_path, stopped, caplog, sharing):
    execute(jobs.load("fedacs", {**given(sharing), "rounds": 2}), tmp_path / "whole")
    with caplog.at_level(logging.WARNING):
        found = predict(stopped, {"pairs": PAIRS})
    assert "has not finished: its model is the best of 2 rounds" in caplog.text
    pd.testing.assert_frame_equal(found, predict(tmp_path / "whole", {"pairs": PAIRS}))
    run = fedgraft.open(stopped)
    assert (len(run.history), run.summary["stopped_by"]) == (2, "stopped")
    whole = fedgraft.open(tmp_path / "whole")
    assert run.summary["test_at_best_validation"] == whole.summary["test_at_best_validation"]
    resume(stopped)
    caplog.clear()
    predict(stopped, {"pairs": PAIRS})
    assert "has not finished" not in caplog.text


@pytest.mark.parametrize("sharing", ["fedavg", pytest.param("fedper", marks=pytest.mark.slow)])
def test_a_page_is_made_of_it(tmp_path, stopped, sharing):
    assert fedgraft.open(stopped).report(tmp_path / "report.html").exists()
