"""Stored runs whose rounds tell why clients were chosen."""

from fedgraft.reports.stored.stored_runs import StoredRun
from helpers.fake_runs import write_run


def explained(folder, explanation, clients=4, cohorts=None, failed=None):
    """A stored run with these terms, a round each, whose cohorts are the first two clients if none are given."""
    run = StoredRun(write_run(folder, clients=clients, rounds=len(explanation)))
    run.rounds["explanation"] = explanation
    run.rounds["selected"] = cohorts or [(0, 1)] * len(explanation)
    run.rounds["failed"] = failed or [{} for _ in explanation]
    return run


def of(*values):
    """{client: value} of the clients that have one."""
    return {client: value for client, value in enumerate(values) if value is not None}
