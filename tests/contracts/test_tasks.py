"""Every task keeps the laws of `fedgraft.testing`; new files of the family are found by themselves.

`DATA` names generated data for a task; a task without an entry fails the first test, so that it gets one.
"""

import dataclasses
from collections.abc import Callable, Collection
from typing import Any

import pytest

from fedgraft.contracts.data import Data
from fedgraft.experiment.recipes import discovery
from fedgraft.methods.data.blocks import Blocks
from fedgraft.methods.data.catalogue import Catalogue
from fedgraft.methods.data.molecules import Molecules
from fedgraft.methods.data.shops import Shops
from fedgraft.methods.data.typed_blocks import TypedBlocks
from fedgraft.testing.laws import Law
from helpers.laws import held
from helpers.stages import staged
from helpers.toy_edges import ToyEdges
from laws import tasks

NAMES = discovery.names("tasks")
DATA: dict[str, Callable[[], Data[Any]]] = {
    "rating": lambda: Shops(users=60, items=80, categories=4, links=200, count=600, clients=3),
    "graph": lambda: Molecules(clients=3, graphs=40),
    "graph_regression": lambda: Molecules(clients=3, graphs=40, labels="numbers"),
    "node": lambda: Blocks(nodes=150, classes=3, clients=3, features=8),
    "node_regression": lambda: Blocks(nodes=150, classes=3, clients=3, features=8, labels="numbers"),
    "link": lambda: Blocks(nodes=150, classes=3, clients=3, features=8),
    "edge": ToyEdges,
    "ranking": lambda: Catalogue(users=60, items=50, count=900, clients=3),
    "typed_node": lambda: TypedBlocks(papers=30, clients=3, classes=3, features=16),
}
ENCODERS = {"typed_node": "han", "edge": "multigraph"}
"""Encoders of tasks that cannot have a GCN."""
POOLABLE: dict[str, Callable[[], Data[Any]]] = {
    "graph": lambda: Molecules(clients=1, graphs=40),
    "graph_regression": lambda: Molecules(clients=1, graphs=40, labels="numbers"),
}
"""Data whose clients could be one; graphs of clients with other features could not."""
LINEAR = discovery.build("models", "model", {"name": "mlp", "hidden": []})
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in DATA},
    "rating, users shared": ("rating", {"share": "users"}),
    "rating, users added up": ("rating", {"share": "sums"}),
    "rating, embeddings": ("rating", {"embeddings": True, "ridge": 0.1}),
    "rating, relations": ("rating", {"embeddings": True, "relations": True}),
    "node, features alone": ("node", {"exchange.states": False}),
    "node, sums of features": ("node", {"exchange.states": False, "inputs.aggregates": True}),
    "node, sealed": ("node", {"exchange.encrypted_rows": True, "exchange.halo": 2}),
    "node, states alone, sealed": ("node", {"exchange.encrypted_rows": True, "exchange.features": False}),
    "node regression, sealed": ("node_regression", {"exchange.encrypted_rows": True, "exchange.states": False}),
    "edge, sealed": ("edge", {"exchange.encrypted_rows": True}),
    "edge, histories alone, sealed": (
        "edge",
        {"exchange.encrypted_rows": True, "exchange.features": False, "exchange.states": False},
    ),
    "node, nothing shared": ("node", {"exchange.states": False, "exchange.features": False}),
    "node, rows asked for": ("node", {"exchange.pull": "asked", "head": "convolution"}),
    "node, inputs smoothed": ("node", {"inputs.propagate": 2, "inputs.scale": 2.0}),
    "node, inputs smoothed and nothing shared": (
        "node",
        {"inputs.propagate": 1, "exchange.states": False, "exchange.features": False},
    ),
    "node, sums of smoothed inputs": (
        "node",
        {"inputs.propagate": 1, "exchange.states": False, "inputs.aggregates": True},
    ),
    "node, hops weighed": ("node", {"inputs.propagate": 2, "inputs.hop_pooling": "attention"}),
    "node regression, mean of hops": (
        "node_regression",
        {"inputs.propagate": 2, "inputs.hop_pooling": "mean", "exchange.states": False},
    ),
    "node regression, last hop": (
        "node_regression",
        {"inputs.propagate": 2, "inputs.hop_pooling": "last", "exchange.states": False},
    ),
    "graph, wl counts": ("graph", {"wl": 2, "wl_width": 64}),
    "graph regression, wl counts": ("graph_regression", {"wl": 2, "wl_width": 64, "loss.huber": 1.0}),
    "node regression, sums of features": (
        "node_regression",
        {"exchange.states": False, "inputs.aggregates": True, "loss.huber": 1.0},
    ),
    "node regression, nothing shared": ("node_regression", {"exchange.states": False, "exchange.features": False}),
    "node, smoothed": ("node", {"answers.smoothing": 2, "exchange.halo": 1}),
    "node, smoothed with labels": (
        "node",
        {"answers.smoothing": 1, "answers.share_labels": True, "exchange.states": False},
    ),
    "node, smoothed, class prior": ("node", {"answers.smoothing": 2, "answers.class_prior": True, "exchange.halo": 1}),
    "node, refitted to answers": (
        "node",
        {"answers.smoothing": 2, "answers.class_prior": True, "answers.refit": "answers"},
    ),
    "node, refitted to what is hidden": (
        "node",
        {"answers.smoothing": 1, "answers.refit": "hidden", "answers.share_labels": True},
    ),
    "node, refitted without neighbours": ("node", {"answers.refit": "hidden"}),
    "node, fitted to own labels": (
        "node",
        {"answers.smoothing": 1, "answers.refit": "answers", "answers.local_fit": True},
    ),
    "node, fitted to own labels alone": ("node", {"answers.local_fit": True}),
    "node, class prior alone": ("node", {"answers.class_prior": True}),
    "graph, class prior": ("graph", {"answers.class_prior": True}),
    "link, perceptron and few neighbours": (
        "link",
        {"decoder": "perceptron", "loss.negatives": 3, "exchange.neighbours": 2},
    ),
    "link, inputs smoothed": ("link", {"inputs.propagate": 2, "likeness": True, "inputs.scale": 2.0}),
    "link, hops weighed": ("link", {"inputs.propagate": 1, "inputs.hop_pooling": "attention"}),
    "edge, histories and features alone": ("edge", {"exchange.states": False, "windows": 2}),
    "edge, class prior": ("edge", {"answers.class_prior": True}),
    "graph, attributes of one length": ("graph", {"inputs.scale": 1.0}),
    "edge, nothing shared": ("edge", {"exchange.states": False, "exchange.features": False, "exchange.history": False}),
    "ranking, as printed": ("ranking", {"loss.name": "margin", "loss.negatives": 5, "decorrelation": 0.1}),
    "ranking, one table": ("ranking", {"tied": True, "loss.negatives": 0}),
    "typed node, few neighbours": ("typed_node", {"exchange.neighbours": 2, "loss.dropout": 0.2}),
    "typed node, inputs smoothed": ("typed_node", {"inputs.propagate": 2, "inputs.scale": 1.0}),
    "typed node, a layer behind states": ("typed_node", {"answers.smoothing": 1, "answers.refit": "hidden"}),
    "typed node, own fit": ("typed_node", {"answers.refit": "answers", "answers.local_fit": True}),
    "typed node, answers smoothed": ("typed_node", {"answers.smoothing": 2}),
    "typed node, class prior": ("typed_node", {"answers.smoothing": 1, "answers.class_prior": True}),
    "node, linear": ("node", {"encoder": LINEAR, "exchange.states": False, "inputs.scale": 2.0}),
    "node regression, linear": ("node_regression", {"encoder": LINEAR, "exchange.states": False}),
    "node, generator": (
        "node",
        {"exchange.states": False, "exchange.features": False, "generator": True, "elsewhere": 9},
    ),
}
"""Every task with its defaults, and with options that change what the laws are about."""
INDEPENDENT = "losses_are_one_finite_number_per_example_and_do_not_depend_on_the_rest_of_the_draw"
OBSERVED = {
    "what_the_model_makes_of_examples_is_what_their_losses_say",
    "all_nodes_are_seen_as_training_examples_are",
}
LEFT_OUT = {"node, generator": {INDEPENDENT, *OBSERVED}}
"""A client that trains a generator hides own nodes from itself, but none of the draw: its losses depend on the draw,
and are the generator's."""


def laws(name: str, options: dict[str, Any], left_out: Collection[str]) -> list[Law[Any]]:
    cls = discovery.find("tasks", name)
    encoder = {"encoder": discovery.build("models", "model", {"name": ENCODERS.get(name, "gcn")})}
    fields = {field.name for field in dataclasses.fields(cls)}
    given = {key: value for key, value in encoder.items() if key in fields} | staged(name, options)
    found = tasks.laws(cls, DATA[name](), poolable=POOLABLE[name]() if name in POOLABLE else None, **given)
    return [law for law in found if law.name not in left_out]


@pytest.mark.parametrize("name", NAMES)
def test_there_are_data_to_hold_it_to_the_laws(name: str) -> None:
    assert name in DATA, f"add generated data for {name!r}"


@pytest.mark.parametrize("law", held({case: laws(*given, LEFT_OUT.get(case, ())) for case, given in CASES.items()}))
def test_keeps_the_law(law: Law[Any]) -> None:
    law()
