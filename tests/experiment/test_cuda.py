"""A run of each task on a CUDA device: the scores of the processor within rounding, the same bytes, resume, predict."""

from pathlib import Path

import pandas as pd
import pytest
import torch

from fedgraft.experiment.job import load
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.running.runner import execute, resume
from helpers.node_runs import SMALL
from helpers.task_runs import RUNS
from helpers.tiny import TINY

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here")

TYPED = {"data.clients": 3, "selector.clients": 2, "rounds": 2, "runtime.workers": 0, "baselines": []}
BLOCKS = {name: SMALL[name] for name in SMALL if "sampler" not in name} | {"selector": {"name": "all"}}
del BLOCKS["selector.clients"]
CASES = {
    **RUNS,
    "attention": ("fedacs", {**TINY, "model.name": "gat"}),
    "convolution": ("fedacs", {**TINY, "model.name": "gcn"}),
    "pairs": ("graft_rating", TINY | {"rounds": 3}),
    "pairs, first layer shared": ("graft_rating", TINY | {"rounds": 3, "sharing.name": "fedper"}),
    "mended": ("fedsage_plus", BLOCKS | {"rounds": 4}),
    "aggregates": ("fedgcn", BLOCKS),
    "sampled": ("fedgraph", BLOCKS),
    "smoothed": ("graft_node", BLOCKS),
    "subtrees": ("graft_graph", {"data.clients": 4, "data.graphs": 20, "rounds": 2, "baselines": []}),
    "links": ("links", {name: BLOCKS[name] for name in BLOCKS if name != "model.hidden"}),
    "node numbers": ("node_regression", BLOCKS),
    "graph numbers": ("graph_regression", {"data.clients": 4, "data.graphs": 20, "rounds": 2, "baselines": []}),
    "typed": ("rafhgl", TYPED),
    "kept moments": ("fedall", BLOCKS | {"training.keep_moments": True, "training.proximal": 0.1}),
    "server moments": ("fedall", BLOCKS | {"server_optimizer.name": "fedyogi"}),
}


@pytest.fixture(params=sorted(CASES))
def case(request: pytest.FixtureRequest):
    recipe, changes = CASES[request.param]
    return lambda **more: load(recipe, {**changes, "runtime.workers": 0, **more})


def test_a_run_scores_as_on_the_cpu(case, tmp_path: Path) -> None:
    here = execute(case())
    there = execute(case(**{"runtime.device": "cuda"}), tmp_path / "run")
    assert there["validation"] == pytest.approx(here["validation"], abs=0.05)
    assert there["bytes"]["total"] == pytest.approx(here["bytes"]["total"], rel=0.02)
    assert not any(there["failures"].values())
    assert resume(tmp_path / "run")["digest"] == there["digest"]


def test_workers_share_a_device(tmp_path: Path) -> None:
    """Two processes on one device score as one does."""
    changes = {**TINY, "runtime.device": "cuda"}
    alone = execute(load("fedacs", {**changes, "runtime.workers": 0}))
    shared = execute(load("fedacs", {**changes, "runtime.workers": 2}), tmp_path / "run")
    assert shared["validation"] == pytest.approx(alone["validation"], rel=1e-3)
    answers = predict(tmp_path / "run", {"pairs": pd.DataFrame({"user": ["user-01"], "item": ["item-01"]})})
    assert answers["rating"].between(1, 5).all()
