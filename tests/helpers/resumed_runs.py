"""Runs that end with the same bits with workers, and after a kill."""

from fedgraft.experiment.running.runner import execute, resume
from helpers.killed_runs import measured

KILL = 12
"""The write to disk at which a run is killed."""


def resumed_alike(whole_run, experiment, folder):
    """Check that a run that is killed and resumed in `folder` ends as the whole one; return the whole one's summary."""
    run = whole_run(experiment, (KILL,))
    assert measured(resume(run.killed(KILL, folder))) == run.summary
    return run.summary


def worked_alike(whole_run, experiment, workers=2):
    """Check that a run ends with the same bits with so many workers."""
    there = execute(experiment.with_changes({"runtime.workers": workers}))
    assert measured(there) == whole_run(experiment, (KILL,)).summary
