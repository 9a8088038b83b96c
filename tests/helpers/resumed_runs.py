"""Runs that end with the same bits with workers, and after a kill; `dying` is the fixture of `killed_runs`."""

import pytest

from fedgraft.experiment.running.runner import execute, resume
from helpers.killed_runs import Killed, measured


def killed(experiment, folder, dying):
    """Run until the twelfth write to disk, which is the last."""
    dying(12)
    with pytest.raises(Killed):
        execute(experiment, folder)
    dying(0)


def ends_alike(experiment, folder, dying, workers=(2,)):
    """Check that a run ends with the same bits with so many workers, and killed and resumed; return its summary."""
    whole = measured(execute(experiment, folder / "whole"))
    for number in workers:
        assert measured(execute(experiment.with_changes({"runtime.workers": number}))) == whole
    killed(experiment, folder / "run", dying)
    assert measured(resume(folder / "run")) == whole
    return whole
