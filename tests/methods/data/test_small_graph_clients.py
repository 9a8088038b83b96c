"""Own graphs of a client that has few of them, or those of one class, beside others that have enough."""

import numpy as np
import pandas as pd
import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute
from fedgraft.methods.data.graphs import Graphs

QUICK = {"rounds": 2, "runtime.workers": 0, "baselines": ["majority"], "model.hidden": 8}


def tables(labels, small="tiny"):
    """Two labs of eight graphs of two classes each, and one with graphs of these classes; every graph is a path."""
    label = ["a", "b"] * 8 + list(labels)
    client = ["north"] * 8 + ["south"] * 8 + [small] * len(labels)
    count = len(label)
    nodes = pd.DataFrame({"graph": np.repeat(np.arange(count), 4), "node": np.tile(np.arange(4), count), "kind": "c"})
    edges = nodes.rename(columns={"node": "source"}).assign(target=nodes["node"] + 1)[nodes["node"] < 3]
    graphs = pd.DataFrame({"graph": np.arange(count), "label": label, "client": client})
    return {"graphs": graphs, "nodes": nodes, "edges": edges[["graph", "source", "target"]]}


@pytest.mark.parametrize(
    ("labels", "notes"),
    [
        (["a"] * 5, ["all graphs (5) have the class 'a'; it answers with the classes of all."]),
        (["a", "b"], ["fewer than 3 graphs (2); all of them are to train on, none is scored."]),
        (["b"], ["fewer than 3 graphs (1); all of them", "all graphs (1) have the class 'b'"]),
    ],
)
def test_a_small_client_takes_part_with_a_note(labels, notes, caplog):
    options = {f"data.{name}": table for name, table in tables(labels).items()}
    told = load("graft_graph", {"data.name": "graphs", **options, **QUICK})
    tiny = next(shard for shard in told.shards() if shard.name == "tiny")
    assert tiny.classes == ("a", "b")
    assert len(tiny.rows("train")) == (len(labels) if len(labels) < 3 else 3)
    assert all(f"client 'tiny': {note}" in caplog.text for note in notes)
    summary = execute(told)
    assert summary["test_at_best_validation"] is not None
    assert (summary["test_per_client"]["tiny"] is None) == (len(labels) < 3)


def test_nobody_can_learn_from_such_graphs_alone():
    alone = tables([])
    alone["graphs"] = alone["graphs"].assign(label="a")
    with pytest.raises(InputError, match="all 8 graphs have the class 'a'; graphs of at least two classes are needed"):
        Graphs(**alone, clients=1).load(0)
