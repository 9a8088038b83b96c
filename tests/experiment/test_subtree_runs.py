"""Runs whose models see counts of subtrees: equal bits anywhere, and no bit changes for runs without them."""

import numpy as np
import pandas as pd
import pytest

from fedgraft.experiment.job import load
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.running.runner import execute
from helpers.resumed_runs import KILL, resumed_alike, worked_alike
from helpers.tiers import long_but_for

SMALL = {
    "data.name": "molecules",
    "data.clients": 3,
    "data.graphs": 20,
    "model.hidden": 8,
    "rounds": 4,
    "runtime.workers": 0,
    "baselines": [],
    "checkpoint.every_seconds": 0,
}
COUNTED = {**SMALL, "task.wl": 2, "task.wl_width": 64}
UNLIKE = ("cefgl", "fedavg", "fedrep", "gcfl", "spreadgnn")
"""Sharing methods whose models are of one, of parts, of groups and of heads."""
ALONE = {"data.classes": 2, "model.name": "mlp", "model.hidden": [], "task.places": False}
EVERYWHERE = {**COUNTED, **ALONE, "task.wl_shared": True}
OF_NODES = {"adafgl", "fedgta", "fedproto", "fedpub", "fedtad", "fedtgp", "fgssl"}
NOT_FOR_GRAPHS = {"fedsage_plus", "fedgnn", "fesog", "ridge", *OF_NODES}


@pytest.mark.parametrize("sharing", ["cefgl", "fedavg"])
def test_a_head_of_its_own_changes_no_bit_of_the_network(tmp_path, sharing):
    """What travels is equal with and without; and options of a task without counts change nothing at all."""
    given = {"sharing.name": sharing, "sharing.probability": 1.0} if sharing == "cefgl" else {"sharing.name": sharing}
    runs = {
        "without": {},
        "with": {"task.wl": 2, "task.wl_width": 64},
        "idle": {"task.wl_width": 9, "task.wl_scale": 2},
    }
    found = {name: execute(load("cefgl", {**SMALL, **given, **more}), tmp_path / name) for name, more in runs.items()}
    assert found["idle"]["digest"] == found["without"]["digest"] != found["with"]["digest"]
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in runs]
    assert models[0] == models[1] == models[2]


@pytest.mark.parametrize("changes", [pytest.param(COUNTED, marks=pytest.mark.slow), EVERYWHERE])
def test_a_resumed_run_ends_alike(whole_run, tmp_path, changes):
    resumed_alike(whole_run, load("cefgl", changes), tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("changes", [COUNTED, EVERYWHERE])
def test_one_worker_and_two_end_alike(whole_run, changes, workers):
    worked_alike(whole_run, load("cefgl", changes), workers)


@pytest.mark.parametrize("sharing", long_but_for(UNLIKE, sorted({*discovery.names("sharing")} - NOT_FOR_GRAPHS)))
def test_every_sharing_method_runs_and_private_counts_cost_no_byte(sharing):
    given = {"sharing.name": sharing, "rounds": 2}
    codec = {"codec": "identity", "downlink": "identity"}
    with_counts, without = (execute(load("cefgl", {**each, **given, **codec})) for each in (COUNTED, SMALL))
    assert with_counts["bytes"] == without["bytes"]
    assert not any(with_counts["failures"].values())


def test_a_shared_layer_is_charged():
    given = {"sharing.name": "fedavg", "rounds": 1, "codec": "identity", "downlink": "identity"}
    assert execute(load("cefgl", {**EVERYWHERE, **given}))["bytes"]["up"] >= 3 * (64 + 1) * 2 * 4


def test_new_graphs_are_answered_by_the_stored_run(whole_run):
    """Each graph apart as all at once, a kind that nobody knows among them."""
    run = whole_run(load("cefgl", COUNTED), (KILL,)).folder
    tables = {
        "nodes": pd.DataFrame(
            {"graph": ["a"] * 3 + ["b"] * 2, "node": [0, 1, 2, 0, 1], "kind": ["C", "C", "?", "C", "C"]}
        ),
        "edges": pd.DataFrame({"graph": ["a", "a", "b"], "source": [0, 1, 0], "target": [1, 2, 1]}),
        "graphs": pd.DataFrame({"graph": ["a", "b"], "client": ["assay-1", "assay-1"]}),
    }
    found = predict(run, tables)
    apart = pd.concat(
        [predict(run, {name: table[table["graph"] == graph] for name, table in tables.items()}) for graph in "ab"],
        ignore_index=True,
    )
    assert found["class"].tolist() == apart["class"].tolist()
    np.testing.assert_allclose(found["probability"], apart["probability"], rtol=1e-4)
