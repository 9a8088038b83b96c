"""A small finished run of each task, and what it may be asked as JSON."""

from pathlib import Path
from typing import Any

from fedgraft.experiment import job as jobs
from fedgraft.experiment.running.runner import execute
from helpers.node_runs import SMALL
from helpers.tiny import TINY

QUICK = {"rounds": 1, "runtime.workers": 0, "baselines": []}
MOLECULES = {"data.name": "molecules", "data.clients": 2, "data.graphs": 20, "model.hidden": 8, **QUICK}
CATALOGUE = {"data.users": 60, "data.items": 40, "data.count": 900, "data.clients": 3}
EDGES = {"data": {"name": "helpers.toy_edges:ToyEdges", "edges": 200, "clients": 2}}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "rating": ("fedacs", {**TINY, **QUICK}),
    "node": ("fedais", {**SMALL, **QUICK}),
    "graph": ("cefgl", MOLECULES),
    "ranking": (
        "reputation_ucb",
        {
            "data.name": "catalogue",
            **CATALOGUE,
            "selector.name": "all",
            "clock.devices": "lognormal",
            "clock.deadline_seconds": 0.0,
            **QUICK,
        },
    ),
    "edge": ("graft_edge", {**EDGES, **QUICK}),
}
QUESTIONS: dict[str, dict[str, Any]] = {
    "rating": {
        "tables": {"pairs": [{"user": "user-01", "item": "item-01", "note": "é"}, {"user": 7, "item": "item-02"}]}
    },
    "node": {
        "tables": {
            "nodes": [{"node": 3}, {"node": "new", **{str(n): 0.5 * n for n in range(8)}}],
            "edges": [{"source": "new", "target": 3}, {"source": "new", "target": "new"}],
        }
    },
    "graph": {
        "tables": {
            "nodes": [{"graph": "a", "node": 0, "kind": "C"}, {"graph": "a", "node": 1, "kind": "C"}],
            "edges": {"graph": ["a"], "source": [0], "target": [1]},
        },
        "client": "assay-1",
    },
    "edge": {"tables": {"edges": [{"source": "1", "target": "2", "0": 0.5}, {"source": "new", "target": "3", "0": 1}]}},
    "ranking": {"tables": {"users": [{"user": "user-02"}, {"user": "user-01"}]}, "count": 3},
}
OWN = {"user": ["ann", "ann", "ben"], "item": ["tea", "cake", "tea"], "rating": [5, 4.5, 2]}


def make_runs(root: Path) -> dict[str, Path]:
    """Their folders by task."""
    for task, (recipe, changes) in RUNS.items():
        execute(jobs.load(recipe, changes), root / task)
    return {task: root / task for task in RUNS}
