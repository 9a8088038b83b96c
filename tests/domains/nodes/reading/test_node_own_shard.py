"""One client's own nodes: whose columns they have, and what is missing."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from fedgraft.domains.edge_data.graph_form import GraphForm
from fedgraft.domains.nodes.reading.client_tables import own_nodes
from fedgraft.domains.nodes.reading.tables import named_features, usual_names
from fedgraft.domains.tables.columns import own_features
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery

TASK = SimpleNamespace(features=2, classes=2, class_names=("art", "law"), sparse=False)
NODES = pd.DataFrame({"node": ["a", "b"], "label": ["law", None], "1": [0.5, 1.5], "0": [2, 3]})
EDGES = pd.DataFrame({"source": ["a", "a"], "target": ["b", "elsewhere"]})


def test_features_without_names_are_found_by_number() -> None:
    shard = discovery.find("data", "blocks")().client_shard(TASK, {"data": NODES, "data-edges": EDGES})
    assert (shard.name, shard.classes, shard.ids.tolist()) == ("own", ("art", "law"), ["a", "b"])
    assert shard.features.tolist() == [[2, 0.5], [3, 1.5]]
    assert shard.senders.tolist() == [1, 0]
    assert (shard.label == -1).all(), "labels are not read"


def test_features_have_the_names_of_the_runs_table_or_else_of_the_clients(tmp_path: Path) -> None:
    path, own = tmp_path / "nodes.csv", NODES.rename(columns={"1": "size", "0": "age"})
    assert named_features(TASK, path, usual_names(), own) == ("size", "age")
    own[["node", "age", "label", "size"]].to_csv(path, index=False)
    assert named_features(TASK, path, usual_names(), own) == ("age", "size")
    assert named_features(TASK, tmp_path, usual_names(), None) == ("age", "size"), "the first file of a folder"
    assert named_features(TASK, own, usual_names(), None) == ("size", "age")
    assert named_features(TASK, path, usual_names(features=("size", "age")), None) == ("size", "age")
    with pytest.raises(InputError, match=r"nodes\.csv: 3 columns of features, but the model was trained on 2"):
        named_features(TASK, path, usual_names(label="class"), None)


def test_questions_are_read_in_the_columns_of_the_runs_tables() -> None:
    data = discovery.find("data", "nodes")(NODES, EDGES, node="node", source="source", client="org")
    asked = {"nodes": NODES.assign(org="x"), "edges": EDGES}
    found = data.questions(TASK, asked, {})
    assert list(found) == ["nodes", "edges", "features"]
    assert list(found["nodes"]) == ["node", "label", "1", "0", "client"]
    assert found["features"]["name"].tolist() == ["1", "0"]


@pytest.mark.parametrize(
    ("task", "tables", "message"),
    [
        (TASK, {"data": NODES}, "--data needs --data-edges, the edges of these nodes"),
        (TASK, {"data": "gone.csv", "data-edges": EDGES}, r"--data: no file gone\.csv"),
        (TASK, {"data": NODES, "data-edges": "gone.csv"}, r"--data-edges: no file gone\.csv"),
        (TASK, {"data": NODES.assign(label="lew"), "data-edges": EDGES}, "named 'lew'. Did you mean 'law'"),
    ],
)
def test_what_is_missing_is_said(task: SimpleNamespace, tables: dict, message: str) -> None:
    features = partial(own_features, names=("0", "1"), is_sparse=False)
    with pytest.raises(InputError, match=message):
        own_nodes(task, tables, GraphForm("data", usual_names()), features, check=True)
