"""Whole runs of every kind of task on Ray and in Flower's simulation, and the same in this process."""

from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute
from helpers.node_runs import OFTEN, SMALL
from helpers.tiny import TINY

GRAPHS = {"data.name": "molecules", "data.clients": 4, "data.graphs": 20, "model.hidden": 8, "rounds": 3}
NODES = {**SMALL, **OFTEN, "rounds": 3, "exchange.neighbours": 3, "loss.dropout": 0.2, "sharing.name": "scaffold"}
LINKS = {
    "data.name": "blocks",
    "data.nodes": 90,
    "data.clients": 3,
    "data.degree": 10.0,
    "model.hidden": 8,
    "rounds": 2,
}
RANKING = {
    **{"data.name": "catalogue", "data.users": 60, "data.items": 40, "data.count": 900, "data.clients": 3},
    **{"selector.clients": 2, "rounds": 2, "baselines": []},
}
RUNS = {
    "rating": ("fedacs", {**TINY, "rounds": 3}),
    "graph": ("cefgl", {**GRAPHS, "baselines": []}),
    "node": ("fedais", NODES),
    "link": ("links", {**LINKS, "task.width": 8, "loss.dropout": 0.2, "exchange.neighbours": 3, "baselines": []}),
    "ranking": ("reputation_ucb", {**RANKING, "clock.devices": "lognormal"}),
}
PRIVATE = {
    **{"data.name": "blocks", "data.nodes": 90, "data.clients": 4, "data.features": 4, "rounds": 2, "baselines": []},
    **{"privacy.delta": 1e-3, "privacy.epsilon": 6.0, "answers.smoothing": 2, "privacy.answers": 2.0},
    "secure_sum.signed": True,
}
ELSEWHERE = {**RUNS, "masked": ("graft_node_private", PRIVATE)}
"""The same, and one of masked sums with noise, whose clients take no local steps."""


def whole(name):
    """Return what a run ends with in this process."""
    recipe, changes = ELSEWHERE[name]
    return _measured(execute(load(recipe, {**changes, "runtime.workers": 0})))


def on_ray(name, watcher=None, **options):
    """Return what it ends with on two actors; "__" in an option stands for a dot."""
    return _on("ray", name, watcher, **options)


def simulated(name):
    """Return what it ends with in Flower's simulation, with two processes."""
    return _on("flower", name)


def _on(runtime, name, watcher=None, **options):
    recipe, changes = ELSEWHERE[name]
    kept = {key: value for key, value in changes.items() if not key.startswith("runtime.")}
    said = {key.replace("__", "."): value for key, value in options.items()}
    made = load(recipe, {**kept, "runtime.name": runtime, "runtime.actors": 2, **said})
    return _measured(execute(made, watcher=watcher))


def _measured(summary):
    return {name: summary[name] for name in ("digest", "bytes", "flops", "test", "validation", "failures", "rounds")}
