"""Own graphs from Python: DataFrames and PyG objects are stored with their run, which can be resumed and asked."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import fedgraft
from fedgraft.errors import InputError

NODES, CLASSES = 60, 3
OVERRIDES = {"rounds": 2, "runtime.workers": 0, "baselines": [], "selector.clients": 2, "model.hidden": [8, 4]}


def graph() -> Data:
    g = np.random.default_rng(0)
    label = np.arange(NODES) % CLASSES
    x = np.eye(CLASSES, 5)[label] + 0.1 * g.standard_normal((NODES, 5))
    ends = g.integers(0, NODES, (2, 150))
    client = np.arange(NODES) % 4
    return Data(
        x=torch.tensor(x, dtype=torch.float32),
        y=torch.tensor(label),
        edge_index=torch.tensor(ends),
        client=torch.tensor(client),
    )


def frames() -> dict[str, pd.DataFrame]:
    data = graph()
    nodes = pd.DataFrame(
        {"node": [f"n{k}" for k in range(NODES)], "label": data.y.numpy(), "client": data.client.numpy()}
    )
    nodes = pd.concat([nodes, pd.DataFrame(data.x.numpy(), columns=list("abcde"))], axis=1)
    ends = data.edge_index.numpy()
    return {
        "nodes": nodes,
        "edges": pd.DataFrame({"source": [f"n{k}" for k in ends[0]], "target": [f"n{k}" for k in ends[1]]}),
    }


@pytest.mark.parametrize("given", ["frames", "object"])
def test_a_graph_in_memory_is_trained_on_stored_and_read_again(tmp_path: Path, given: str) -> None:
    data = {"name": "nodes", **(frames() if given == "frames" else {"nodes": graph()})}
    run = fedgraft.run("fedais", data=data, out=tmp_path / "run", seed=1, overrides=OVERRIDES)
    again = fedgraft.open(tmp_path / "run")
    assert again.summary["digest"] == run.summary["digest"]
    asked = pd.DataFrame({"node": ["n3", "n4"] if given == "frames" else ["3", "4"]})
    assert list(again.predict(nodes=asked)["node"]) == list(asked["node"])
    with pytest.raises(InputError, match=r"questions must be the path of a .csv or .parquet file .*; got list"):
        again.predict(["n3", "n4"])
