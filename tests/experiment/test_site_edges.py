"""Banks whose transfers have labels, at their sites: the digest, bytes and scores of one machine with all tables."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedgraft.experiment import experiment as experiments
from fedgraft.experiment.running.runner import execute
from helpers import banks
from helpers.banks import BANKS
from helpers.local_sites import federated

SAME = ("digest", "bytes", "metric", "test", "validation", "test_per_client")
CHANGES = {**banks.OPTIONS, "rounds": 3, "runtime.workers": 0, "yardsticks": []}


def here(every: dict[str, pd.DataFrame], root: Path, changes: dict[str, Any]) -> dict[str, Any]:
    paths = {f"data.{name}": str(path) for name, path in banks.written(every, root / "all").items()}
    return execute(experiments.load("graft_edge", {**CHANGES, **paths, **changes}), root / "here")


def at_sites(every: dict[str, pd.DataFrame], root: Path, changes: dict[str, Any]):
    own = [banks.written(banks.of_bank(every, name), root / "tables" / name) for name in BANKS]
    given = [[f"{name}={path}" for name, path in each.items()] for each in own]
    nowhere = {"data.nodes": "nowhere.csv", "data.edges": "nowhere.csv"}
    return federated("graft_edge", {**CHANGES, **nowhere, **changes}, given, list(BANKS), root / "sites")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"data.match": "psi"},
        {"data.source_client": "auto", "data.target_client": ""},
        {"data.time": "", "data.edge_features": ["amount"]},
        {"data.labels": "numbers", "data.label": "amount", "data.edge_features": ["channel"]},
    ],
)
def test_sites_end_as_one_machine_with_the_whole_table(tmp_path: Path, changes: dict[str, Any]) -> None:
    every = banks.tables()
    if changes.get("data.labels") == "numbers":
        every["edges"] = every["edges"].assign(amount=every["edges"]["amount"].fillna(1.0))
    one = here(every, tmp_path, changes)
    two, _ = at_sites(every, tmp_path, changes)
    for name in SAME:
        assert two[name] == one[name], name
    assert one["bytes"]["matching"] > 0
    assert one["bytes"]["halo"] > 0
