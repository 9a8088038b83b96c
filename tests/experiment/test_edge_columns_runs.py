"""Runs of every model that reads columns of edges, on a graph cut over clients; links over it, and exported models."""

from pathlib import Path
from typing import Any

import pytest

from fedgraft.experiment.job import load
from fedgraft.experiment.predicting.export import export
from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.experiment.running.runner import execute
from helpers.toy_transfers import write_transfers

MODELS: dict[str, dict[str, Any]] = {
    "gine": {"name": "gine", "hidden": 16},
    "gat": {"name": "gat", "hidden": 16, "embedding": 16},
    "pyg": {"name": "pyg", "module": "torch_geometric.nn:TransformerConv", "hidden": 16},
    "network": {
        "name": "network",
        "module": "torch_geometric.nn:GAT",
        "options": {"hidden_channels": 16, "num_layers": 2, "edge_dim": 2},
    },
}
WITHOUT = {"runtime.workers": 0, "baselines": []}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 accounts of which each sixth is paid by large sums; all pay and are paid as often as others."""
    folder = tmp_path_factory.mktemp("amlsim")
    accounts = [f"{k},{int(k % 6 == 0)},100,-1" for k in range(120)]
    ends = [(k, (k + step) % 120) for k in range(120) for step in (1, 7, 31)]
    transfers = [f"{by},{to},{(900 if to % 6 == 0 else 20) + (by * 7) % 80},1" for by, to in ends]
    write_transfers(folder / "20K_cycle200", accounts, transfers)
    return folder


@pytest.mark.parametrize("name", ["gine", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gat", "pyg"))])
def test_what_edges_carry_tells(name: str, root: Path) -> None:
    fixed = {"data.root": str(root), "data.clients": 3, "rounds": 8, "model": MODELS[name], **WITHOUT}
    summary = execute(load("graft_multigraph", fixed))
    assert summary["test"] > 0.6, "chance is 0.17"
    again = execute(load("graft_multigraph", {**fixed, "runtime.workers": 2})) if name == "gat" else summary
    assert again["digest"] == summary["digest"]


@pytest.mark.parametrize("name", ["gine", "network"])
def test_links_learn_and_are_exported(name: str, root: Path, tmp_path: Path) -> None:
    data = {"data": {"name": "amlsim", "root": str(root), "clients": 2}}
    summary = execute(load("links", {**data, "rounds": 3, "model": MODELS[name], **WITHOUT}), tmp_path / "run")
    assert summary["test"] > 0
    export(open_run(tmp_path / "run"), tmp_path / "model")
    assert "edge_attr" in (tmp_path / "model" / "model.py").read_text()
