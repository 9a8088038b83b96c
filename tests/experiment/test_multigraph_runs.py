"""Runs on a graph whose edges carry data and cross clients: fraud that edges alone tell of is found."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import fedgraft
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute, resume
from helpers.toy_transfers import write_transfers

ROUNDS = 6


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 accounts of which each sixth is paid by large sums; all pay and are paid as often as others."""
    root, g = tmp_path_factory.mktemp("amlsim"), np.random.default_rng(0)
    fraud = np.arange(120) % 6 == 0
    ends = [(k, (k + step) % 120) for k in range(120) for step in (1, 7, 31)]
    amounts = [round(float(g.uniform(900, 999) if fraud[to] else g.uniform(10, 99)), 2) for _, to in ends]
    accounts = [f"{k},{int(fraud[k])},100,-1" for k in range(120)]
    transfers = [f"{by},{to},{amount},1" for (by, to), amount in zip(ends, amounts, strict=True)]
    write_transfers(root / "20K_cycle200", accounts, transfers)
    return root


@pytest.fixture
def experiment(root: Path):
    fixed = {"data.root": str(root), "data.clients": 3, "rounds": ROUNDS, "runtime.workers": 0, "baselines": []}
    return lambda **changes: load("graft_multigraph", {**fixed, **changes})


def test_what_edges_carry_tells(experiment) -> None:
    summary = execute(experiment())
    assert summary["metric"] == "average_precision"
    assert summary["test"] > 0.95
    assert summary["bytes"]["halo"] > 0, "states of accounts at other banks"
    blind = execute(experiment(**{"model": {"name": "sage", "hidden": [32, 32]}}))
    assert blind["test"] < 0.6, "nothing but amounts tells"


@pytest.mark.slow
def test_processes_and_a_stop_change_no_bit(experiment, tmp_path: Path) -> None:
    alone = execute(experiment())
    assert execute(experiment(**{"runtime.workers": 2}))["digest"] == alone["digest"]
    execute(experiment(rounds=4), tmp_path / "run")
    assert resume(tmp_path / "run", rounds=ROUNDS)["digest"] == alone["digest"]


def test_an_exported_model_says_what_the_run_does(experiment, tmp_path: Path) -> None:
    execute(experiment(**{"data.clients": 1, "rounds": 2}), tmp_path / "run")
    run = fedgraft.open(tmp_path / "run")
    (shard,) = run.experiment.shards()
    edges = np.stack([shard.senders, np.repeat(np.arange(shard.own), shard.degree)]).astype(np.int64)
    given = shard.features, edges, shard.edge_rows.values, shard.edge_rows.along
    with torch.no_grad():
        found = run.export(folder=tmp_path / "model")(*map(torch.from_numpy, given)).softmax(1)
    told = run.predict(pd.DataFrame({"nodeid": shard.ids}), probabilities=True)
    np.testing.assert_allclose(found.numpy(), told[[f"probability_{name}" for name in shard.classes]], atol=1e-5)
    assert (
        "- `along`: bool [edges], true; where edges have a direction" in (tmp_path / "model" / "README.md").read_text()
    )
