"""`run.models`, `run.model`, `predict` and `export` give the same answers, in every task under every sharing method."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

import fedgraft
from fedgraft.domains.labels.numbers import unit_of
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.recipes import discovery
from helpers.query_tests import ASKED

ROUNDS = {
    **{"rounds": 2, "training.epochs": 1, "runtime.workers": 0, "baselines": []},
    **{"selector": {"name": "all"}, "sampler": {"name": "all"}},
}
SHOPS = {"name": "shops", "users": 40, "items": 40, "categories": 4, "links": 60, "count": 400, "clients": 2}
BLOCKS = {"data": {"name": "blocks", "nodes": 60, "clients": 2, "classes": 3, "features": 4}, "model.hidden": 4}
MOLECULES = {
    "data": {"name": "molecules", "clients": 2, "graphs": 20},
    "model": {"name": "gin", "hidden": 4, "layers": 2},
    "task.walks": 2,
    "task.degrees": 2,
}
TYPED = {"data": {"name": "typed_blocks", "papers": 40, "clients": 2, "features": 8}, "model.hidden": 8}
CATALOGUE = {
    "data": {"name": "catalogue", "users": 20, "items": 20, "count": 200, "clients": 2, "partition": "uniform"},
    "clock": {"devices": "lognormal"},
}
EDGES = {
    "data": {"name": "helpers.toy_edges:ToyEdges", "edges": 200, "clients": 2},
    "exchange.states": False,
    "evaluation.metric": "accuracy",  # by which the likeliest class is answered
}
TASKS = {
    "rating": ("fedacs", {"data": SHOPS, "task.folds": 2}),
    "node": ("fedais", {**BLOCKS, "exchange.states": False}),
    "node_regression": ("node_regression", {**BLOCKS, "exchange.states": False}),
    "link": ("links", BLOCKS),
    "graph": ("cefgl", MOLECULES),
    "graph_regression": ("graph_regression", MOLECULES),
    "typed_node": ("rafhgl", TYPED),
    "ranking": ("reputation_ucb", CATALOGUE),
    "edge": ("graft_edge", EDGES),
}
ANY_TASK = ("cefgl", "ditto", "fedala", "fedavg", "feddc", "fedper", "fedprox", "fedrep", "gcfl", "local", "scaffold")
SOME_TASKS = {
    "rating": ("fedgnn", "fesog"),
    "node": (
        "adafgl",
        "fedgta",
        "fedproto",
        "fedpub",
        "fedsage_plus",
        "fedtad",
        "fedtgp",
        "fgssl",
        "moon",
        "prototypes",
        "ridge",
    ),
    "node_regression": ("ridge",),
    "graph": ("fedstar", "moon", "prototypes", "spreadgnn"),
    "graph_regression": ("fedstar", "spreadgnn"),
    "typed_node": ("fedgta", "fedproto", "fedtgp", "moon", "prototypes", "spreadgnn"),
}
CELLS = [(task, sharing) for task in TASKS for sharing in (*ANY_TASK, *SOME_TASKS.get(task, ()))]
WITH_EVERY_METHOD = ("node",)
ALIKE = ("ditto", "fedala", "feddc", "fedper", "fedprox", "fedrep", "fedtgp", "gcfl", "local", "moon", "scaffold")
"""Sharing methods whose models are found as others' are: in some tasks they are left to the long tests."""
EXPORTED = {
    *product(["rating"], ANY_TASK),  # fedgnn and fesog have a row for each item
    *product(
        ["node"],
        [*ANY_TASK, "fedgta", "fedproto", "fedpub", "fedtad", "fedtgp", "fgssl", "moon", "prototypes", "ridge"],
    ),
    *product(["graph", "graph_regression", "node_regression"], [*ANY_TASK, *SOME_TASKS["graph"], "ridge"]),
    *product(["link", "edge"], ANY_TASK),
}
"""What can be exported."""
NEED_OPTIONS = ("fedgnn", "fesog", "fedsage_plus")
"""Sharing methods for one task with options that the recipes of their names have."""


def changed(task, sharing):
    """A recipe, and what is changed of it."""
    recipe, changes = TASKS[task]
    linear = {"model": {"name": "mlp", "hidden": []}} if sharing == "ridge" else {}
    changes = {key: value for key, value in changes.items() if not (linear and key.startswith("model"))}
    return sharing if sharing in NEED_OPTIONS else recipe, {**changes, **linear, **ROUNDS, "sharing.name": sharing}


def params():
    for task, sharing in CELLS:
        long = task not in WITH_EVERY_METHOD and sharing in ALIKE
        yield pytest.param((task, sharing), id=f"{task}-{sharing}", marks=[pytest.mark.slow] if long else [])


@pytest.fixture(scope="module", params=params())
def trained(request, tmp_path_factory):
    """A run, and its models."""
    recipe, overrides = changed(*request.param)
    run = fedgraft.run(recipe, out=tmp_path_factory.mktemp("run") / "run", overrides=overrides, progress=False)
    return run, dict(run.models)


def test_models_score_what_the_summary_says(trained):
    run, models = trained
    task, said, sums = run.experiment.plan.task, run.summary["test_per_client"], sums_of(*trained)
    assert list(models) == list(said)
    if run.experiment.plan.personal:  # each keeps its best
        expected = {name: float("nan") if score is None else score for name, score in said.items()}
        assert {name: task.score(each) for name, each in sums.items()} == pytest.approx(expected, nan_ok=True)
        return
    total = {key: sum(each[key] for each in sums.values()) for key in task.sums}
    assert task.score(total) == pytest.approx(run.summary["test_at_best_validation"])
    ours, shared = next(iter(models.values())).state_dict(), run.model.state_dict()
    assert all(torch.equal(ours[name], shared[name]) for name in shared)


def sums_of(run, models):
    """What the test score of each client's model is made of, by name."""
    evaluate, prepared = run.experiment.plan.task.evaluate, run._finished.prepared
    with torch.no_grad():
        return {name: evaluate(models[name], prepared(number))["test"] for number, name in enumerate(models)}


def test_predictions_are_those_of_the_models(trained):
    run, models = trained
    finished, sums = run._finished, sums_of(*trained)
    task = finished.task
    asked, score_of = zip(*map(ASKED[run.experiment.task_name], finished.shards), strict=True)
    first = next(iter(asked[0]))
    named = [{**each, first: each[first].assign(client=name)} for name, each in zip(models, asked, strict=True)]
    tables = {table: pd.concat([each[table] for each in named], ignore_index=True) for table in asked[0]}
    found = run.predict(**tables)
    for number, questions in task.questions(finished.shards, tables).items():
        name, shard = finished.names[number], finished.shards[number]
        mine = found[found["client"] == name]
        told = task.predict(models[name], shard, finished.memory(number), questions.asked)
        for column in mine.columns.intersection(list(told)):
            np.testing.assert_array_equal(mine[column], told[column])
        if run.experiment.task_name not in ("ranking", "edge"):  # what is asked of edges is after all of the run
            assert score_of[number](mine) == pytest.approx(finished.plan.task.score(sums[name]), rel=1e-5, nan_ok=True)


def test_what_is_exported_says_the_same(trained, tmp_path):
    run, models = trained
    task, sharing = run.experiment.task_name, run.experiment.recipe.sections["sharing"]["name"]
    if (task, sharing) not in EXPORTED:
        with pytest.raises(InputError, match=r"cannot be exported|for a model that is exported"):
            run.export(next(iter(models)))
        return
    if task == "rating":
        rates_as_predicted(run, tmp_path)
        return
    for number, (name, model) in enumerate(models.items()):
        of = {"node": of_nodes, "node_regression": of_nodes, "link": of_links, "edge": of_edges}.get(task, of_graphs)
        inputs, outputs = of(run._finished, number, model)
        with torch.no_grad():
            found = run.export(name)(*map(torch.from_numpy, inputs))
        told = found if task in ("graph_regression", "node_regression", "link") else found.softmax(1)
        np.testing.assert_allclose(told.reshape(outputs.shape), outputs, rtol=1e-5, atol=1e-5)
    if not run.experiment.plan.personal:
        with torch.no_grad():
            assert torch.equal(run.export()(*map(torch.from_numpy, inputs)), found)


def rates_as_predicted(run, folder):
    for name in run.models:
        pairs, _ = ASKED["rating"](run._finished.shards[run._finished.number(name)])
        model = run.export(name, folder)
        client = model.forward.__globals__["Client"](folder)
        with torch.no_grad():
            found = model(*client.inputs(pairs["pairs"].to_numpy().tolist())).clamp(*client.scale)
        expected = run.predict(pairs["pairs"].assign(client=name))
        np.testing.assert_allclose(found.numpy(), expected["rating"], atol=1e-5)


def of_nodes(finished, number, model):
    """A client's nodes as arrays, and probabilities of classes, or numbers; edges that are cut are left out."""
    task = finished.plan.task
    alone = task.alone(finished.shards[number])
    receivers = np.repeat(np.arange(alone.own), alone.degree)
    edges = np.stack([alone.senders, receivers]).astype(np.int64)
    if not task.tells_classes:
        outputs = task.prepare(alone, {}).scored(model).numpy(force=True)
        unit = unit_of(task.labels, alone, finished.memory(number)["shared"])
        return (np.asarray(alone.features), edges), unit.inverse(outputs)
    return (np.asarray(alone.features), edges), task.scored(model, task.prepare(alone, {}))


def of_links(finished, number, model):
    """A client's graph as arrays, its pairs, and their log odds."""
    shard = finished.shards[number]
    graph, pairs = shard.graph, shard.pairs.astype(np.int64)
    receiver = np.repeat(np.arange(graph.own), graph.degree)
    edges = np.stack([graph.senders, receiver]).astype(np.int64)
    return (graph.features, edges, pairs), finished.plan.task.prepare(shard, {}).scores(model, pairs)


def of_edges(finished, number, model):
    """A client's graph as arrays, edges between its nodes with columns, and the probabilities of classes."""
    task, shard = finished.plan.task, finished.plan.task.alone(finished.shards[number])
    ((_, questions),) = task.questions([shard], ASKED["edge"](shard)[0]).items()
    answers = task.predict(model, shard, {}, questions.asked)
    rows, receiver = shard.graph.edge_rows, np.repeat(np.arange(shard.graph.own), shard.graph.degree)
    edges = np.stack([receiver, shard.graph.senders]).astype(np.int64)[:, ~rows.along]
    asked = questions.asked.ends, questions.asked.columns
    probabilities = np.stack([answers["probability_good"], answers["probability_bad"]], axis=1)
    return (shard.graph.features, edges, rows.values[~rows.along], *asked), probabilities


def of_graphs(finished, number, model):
    """A client's graphs as arrays, and the probabilities of their classes, or their numbers."""
    shard = finished.shards[number]
    features = np.concatenate([np.eye(shard.kinds)[shard.kind], shard.attributes], 1).astype(np.float32)
    graph = np.repeat(np.arange(shard.graphs), shard.sizes)
    with torch.no_grad():
        outputs, task = finished.plan.task.outputs_of(model, shard), finished.plan.task
    if not shard.classes:
        numbers = task.labels.answers(outputs, task.unit_of(shard))["prediction"]
        return (features, shard.edges[::-1].astype(np.int64), graph), numbers
    outputs = outputs.softmax(1)
    return (features, shard.edges[::-1].astype(np.int64), graph), outputs


def begun(task, sharing):
    """Begin a run: what hangs on the data is found only then."""
    recipe, overrides = TASKS[task]
    made = load(recipe, {**overrides, **ROUNDS, "sharing.name": sharing})
    plan = made.fitted(made.data.load(1)).plan
    return plan.sharing.init(plan.first, 2)


def test_every_task_and_sharing_method_is_here():
    assert {task for task, _ in CELLS} == set(discovery.names("tasks"))
    assert {sharing for _, sharing in CELLS} == set(discovery.names("sharing"))
    for task, sharing in sorted({*product(TASKS, discovery.names("sharing"))} - {*CELLS}):
        with pytest.raises(InputError, match=r"needs a task that|which task|needs classes that all"):
            begun(task, sharing)
