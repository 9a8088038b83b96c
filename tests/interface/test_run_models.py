"""`run.models` and `run.model` are what predicts: they score what the summary says, whoever shares what."""

import pytest
import torch

import fedgraft
from helpers.tiny import TINY

SMALL = {"rounds": 2, "runtime.workers": 0, "yardsticks": [], "selector.name": "all"}
NODES = {"data": {"name": "blocks", "nodes": 90, "clients": 2, "features": 8}, "model.hidden": 4}
GRAPHS = {"data": {"name": "molecules", "clients": 2, "graphs": 60}, "model.hidden": 4}
TYPED = {"data": {"name": "typed_blocks", "papers": 40, "clients": 2, "features": 8}, "model.hidden": 8}
RANKING = {"data": {"name": "catalogue", "users": 40, "items": 30, "count": 400, "clients": 8}}
RUNS = {
    "rating, fedavg": ("fedacs", TINY),
    "rating, fedper": ("fedacs", {**TINY, "sharing.name": "fedper"}),
    "node, fedavg": ("fedais", {**NODES, "task.share_states": False}),
    "node, local": ("fedais", {**NODES, "task.share_states": False, "sharing.name": "local"}),
    "graph, fedavg": ("cefgl", {**GRAPHS, "sharing.name": "fedavg"}),
    "graph, cefgl": ("cefgl", GRAPHS),
    "typed, prototypes": ("rafhgl", TYPED),
    "ranking, fedavg": ("reputation_ucb", RANKING),
}


@pytest.mark.parametrize("case", RUNS)
def test_models_score_what_the_summary_says(tmp_path, case):
    recipe, changes = RUNS[case]
    run = fedgraft.run(recipe, out=tmp_path / "run", overrides={**changes, **SMALL}, progress=False)
    finished, plan, said = run._finished, run.experiment.plan, run.summary["test_per_client"]
    assert list(run.models) == list(said)
    assert len(run.models) == len(said)
    sums = {}
    for number, (name, model) in enumerate(run.models.items()):
        with torch.no_grad():
            sums[name] = plan.task.evaluate(model, finished.prepared(number))["test"]
    if plan.personal:  # each keeps its best
        expected = {name: float("nan") if score is None else score for name, score in said.items()}
        assert {name: plan.task.score(each) for name, each in sums.items()} == pytest.approx(expected, nan_ok=True)
        return
    total = {key: sum(each[key] for each in sums.values()) for key in plan.task.sums}
    assert plan.task.score(total) == pytest.approx(run.summary["test_at_best_validation"])
    ours, shared = next(iter(run.models.values())).state_dict(), run.model.state_dict()
    assert all(torch.equal(ours[name], shared[name]) for name in shared)
