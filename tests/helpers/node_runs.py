"""Small experiments on one graph that is cut over clients, and what its clients tell each other without a server."""

import json
from functools import cache

import numpy as np
import torch

from fedgraft.contracts.values import Halo
from fedgraft.engine.server.halo import HaloStore
from fedgraft.experiment.job import load

SMALL = {
    "data.name": "blocks",
    "data.nodes": 90,
    "data.classes": 3,
    "data.clients": 4,
    "data.features": 8,
    "model.hidden": [6, 5],
    "selector.clients": 3,
    "sampler.batches": 3,
    "training.epochs": 1,
    "training.learning_rate": 0.01,
    "rounds": 2,
    "runtime.workers": 0,
    "baselines": [],
}
"""Four clients of some 22 nodes; three of them train in each of two rounds, in three steps."""
PLAIN = {
    "codec": "identity",
    "downlink": "identity",
    "rows": "identity",
    "evaluation.averaging": 0.0,
    "inputs.scale": 0.0,
    "evaluation.every": 1,
}
"""The recipe fedais without what was tuned: nothing is lost on the way, and what is scored is what is trained."""
OFTEN = {"sampler.interval": 2, "sampler.adaptive": False, "training.epochs": 3}
"""For fedais: rows are asked for every other of nine steps, four times in a round beside its first step."""


def small(recipe="fedais", shards=None, **changes):
    """(experiment, shards): a recipe on a graph of a few nodes; "__" in a key stands for a dot."""
    changes = {key.replace("__", "."): value for key, value in changes.items()}
    plain = PLAIN if recipe == "fedais" else {}
    if shards is not None:
        return load(recipe, {**SMALL, **plain, **changes}).fitted(shards), shards
    experiment, dealt = _made(recipe, json.dumps({**SMALL, **plain, **changes}))
    return experiment, list(dealt)


@cache
def _made(recipe, changes):
    """As `small`, once: an experiment and its shards are values, and to put one together takes a while."""
    experiment = load(recipe, json.loads(changes))
    dealt = tuple(experiment.data.load(experiment.seed))
    return experiment.fitted(dealt), dealt


def model_of(task, seed=0, spread=0.5):
    """The task's model with parameters of which every one matters."""
    g = torch.Generator().manual_seed(seed)
    model = task.model(g).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += spread * torch.randn(parameter.shape, generator=g)
    return model


def set_up(task, shards):
    """Every client's prepared data once all have set_up themselves."""
    published = {client: task.publications.statistics(shard) for client, shard in enumerate(shards)}
    combined = {}
    if any(published.values()):
        for arrays in published.values():
            task.publications.check(arrays)
        combined = task.publications.combine(published)
    data = [task.prepare(shard, combined.get(client, {})) for client, shard in enumerate(shards)]
    return [task.exchanged.opened(each, None) for each in data]


def store_of(task, shards):
    """Whose rows go where."""
    found = task.exchanged.halos({client: task.publications.statistics(shard) for client, shard in enumerate(shards)})
    return HaloStore(
        [found[c][0] for c in sorted(found)], [Halo(*found[c][1]) for c in sorted(found)], task.exchanged.halo_widths
    )


def relayed(task, shards, model):
    """Every client's data with the states of its halo under one model, layer by layer."""
    data = set_up(task, shards)
    if not task.exchanged.halo_widths:
        return data
    store = store_of(task, shards)
    state = store.start()
    for layer in range(len(task.exchanged.halo_widths)):
        for client, each in enumerate(data):
            store.publish(state, client, task.exchanged.relay(model, each, layer))
        for client, each in enumerate(data):
            task.exchanged.receive(each, store.pull(state, client))
    return data


def added(sums):
    """Clients' sums as those of all."""
    return {key: float(np.sum([each[key] for each in sums])) for key in sums[0]}
