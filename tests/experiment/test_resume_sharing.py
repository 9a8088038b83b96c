"""Every sharing method, with all that its clients remember, survives being killed: on one worker, two, or none."""

import pytest

from fedgraft.experiment import discovery
from fedgraft.experiment.experiment import load
from fedgraft.experiment.run_folder import Store
from fedgraft.experiment.runner import execute, resume
from helpers.killed_runs import Killed, measured

EVERYTHING = {
    "data.name": "molecules",
    "data.clients": 4,
    "data.graphs": 20,
    "model.hidden": 8,
    "rounds": 6,
    "runtime.workers": 0,
    "yardsticks": [],
    "checkpoint.every_seconds": 0,
    "dropout.rate": 0.2,
}
CODEC = [{"name": "low_rank", "rank": 3}, {"name": "quantized", "bits": 5, "rounding": "stochastic"}]
NOT_FOR_GRAPHS = {"fedsage_plus"}
"""What survives it in a test of its own."""
OPTIONS = {"gcfl": {"sharing.after": 1, "sharing.mean_norm": 9.0, "sharing.max_norm": 0.0, "sharing.series": True}}


@pytest.mark.parametrize("name", sorted({*discovery.names("sharing")} - NOT_FOR_GRAPHS))
def test_killed_again_and_again_a_run_ends_as_if_it_had_not_been(tmp_path, dying, name):
    changes = {**EVERYTHING, "sharing.name": name, "codec": CODEC, **OPTIONS.get(name, {})}
    whole = measured(execute(load("cefgl", changes), tmp_path / "whole"))
    folder = tmp_path / "run"
    dying(12)
    with pytest.raises(Killed):
        execute(load("cefgl", changes), folder)
    for call in (7, 11, 18):
        dying(call)
        with pytest.raises(Killed):
            resume(folder)
    dying(0)
    assert measured(resume(folder)) == whole
    assert Store.open(folder).load()[1] == Store.open(tmp_path / "whole").load()[1]
    assert (folder / "ledger.jsonl").read_text() == (tmp_path / "whole" / "ledger.jsonl").read_text()
