"""What scoring would cost at clients is what it costs there."""

import pytest

from fedgraft.experiment import job as jobs
from fedgraft.experiment.running.runner import execute_on
from fedgraft.reports.studies.running import scoring_bytes

SMALL = {"rounds": 4, "baselines": [], "runtime.workers": 0}
BLOCKS = {"data.name": "blocks", "data.clients": 3, "data.nodes": 90, "data.classes": 3, "data.features": 12}
MOLECULES = {"data.name": "molecules", "data.clients": 3, "data.graphs": 20}


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("fedlocal", {**BLOCKS, "evaluation.every": 2}),
        pytest.param("fedlocal", {**BLOCKS, "evaluation.sample": 2}, marks=pytest.mark.slow),
        pytest.param("fedlocal", {**BLOCKS, "sharing.name": "local"}, marks=pytest.mark.slow),
        ("graft_node", BLOCKS),  # answers are smoothed after training
        ("cefgl", MOLECULES),
    ],
)
def test_it_is_what_the_ledger_counts(recipe, changes):
    totals, predicted = {}, {}
    for at in ("server", "clients"):
        made = jobs.load(recipe, {**SMALL, **changes, "evaluation.at": at})
        shards = made.shards()
        made = made.fitted(shards)
        summary = execute_on(made, shards, {})
        totals[at], predicted[at] = summary["bytes"]["total"], scoring_bytes(made, summary)
    assert predicted["server"] == totals["clients"] - totals["server"] > 0
    assert predicted["clients"] == 0
