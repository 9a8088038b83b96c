"""Real tables as their owners have them, for three clients: every command ends well, whatever the score."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from helpers.command import caller

pytestmark = [pytest.mark.data, pytest.mark.slow]
QUICK = ("rounds=2", "runtime.workers=0", "baselines=[]", "-q")


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    return caller(monkeypatch, capsys, tmp_path)


def fraud(root: Path, folder: Path) -> tuple[list[str], dict[str, Path]]:
    """Accounts with a balance, a step of fraud that tells it, and who sent to whom."""
    nodes, edges = root / "AMLSim" / "20K_cycle200" / "nodes.csv", root / "AMLSim" / "20K_cycle200" / "transactions.csv"
    pd.read_csv(nodes).head(4)[["nodeid"]].to_csv(folder / "asked.csv", index=False)
    names = ["data.node=nodeid", "data.label=isFraud", "data.source=sourceNodeId", "data.target=targetNodeId"]
    said = ["data.name=nodes", f"data.nodes={nodes}", f"data.edges={edges}", "data.features=init_balance"]
    return ["graft_node", *said, *names, "data.clients=3"], {"nodes": folder / "asked.csv"}


def trust(root: Path, folder: Path) -> tuple[list[str], dict[str, Path]]:
    """Who trusts whom, from -10 to 10, with the second of each vote."""
    path = root / "bitcoin" / "soc-sign-bitcoinalpha.csv"
    pd.read_csv(path).head(5)[["from", "to"]].to_csv(folder / "asked.csv", index=False)
    said = ["data.name=table", f"data.ratings={path}", "data.user=from", "data.item=to", "data.rating=feature"]
    scale = ["data.time=time", "data.low=-10", "data.high=10", "data.clients=3"]
    return ["graft_rating", *said, *scale], {"pairs": folder / "asked.csv"}


def films(root: Path, folder: Path) -> tuple[list[str], dict[str, Path]]:
    """Votes in a file without a header, tabs between them."""
    said = ["data.name=interactions", f"data.interactions={root / 'ml-100k' / 'u.data'}", "data.separator=tab"]
    names = ['data.columns=["user","item","vote","when"]', "data.time=when", "data.clients=3"]
    pd.DataFrame({"user": ["1", "7"]}).to_csv(folder / "asked.csv", index=False)
    return ["graft_ranking", *said, *names, "training.epochs=2"], {"users": folder / "asked.csv"}


def solubility(root: Path, folder: Path) -> tuple[list[str], dict[str, Path]]:
    """Molecules as the letters of their SMILES, each joined to the next one, with a number each."""
    table = pd.read_csv(root / "molecules_csv" / "esol_original.csv").head(120)
    names = [f"m{k}" for k in range(len(table))]
    atoms = [[letter for letter in text if letter.isalpha()] for text in table["smiles"]]
    number = table["measured log solubility in mols per litre"]
    client = np.array(["north", "south", "west"])[np.arange(len(table)) % 3]
    pd.DataFrame({"graph": names, "label": number, "client": client}).to_csv(folder / "graphs.csv", index=False)
    rows = [(name, k, kind) for name, kinds in zip(names, atoms, strict=True) for k, kind in enumerate(kinds)]
    nodes = pd.DataFrame(rows, columns=["graph", "node", "kind"])
    edges = nodes[nodes["node"] > 0].assign(source=nodes["node"] - 1, target=nodes["node"])[
        ["graph", "source", "target"]
    ]
    files = {"graphs": folder / "graphs.csv", "nodes": folder / "nodes.csv", "edges": folder / "edges.csv"}
    nodes.to_csv(files["nodes"], index=False)
    edges.to_csv(files["edges"], index=False)
    asked = {"nodes": folder / "asked.csv", "edges": folder / "asked_edges.csv"}
    nodes[nodes["graph"].isin(names[:3])].to_csv(asked["nodes"], index=False)
    edges[edges["graph"].isin(names[:3])].to_csv(asked["edges"], index=False)
    said = ["data.name=graphs", *(f"data.{name}={path}" for name, path in files.items())]
    return ["graph_regression", *said, "training.epochs=1"], asked


@pytest.mark.parametrize("tables", [fraud, trust, films, solubility], ids=lambda each: each.__name__)
def test_every_command_ends_well(command: Any, data_root: Path, tmp_path: Path, tables: Any) -> None:
    said, asked = tables(data_root, tmp_path)
    first = command("run", *said, *QUICK, "--out", "a")
    assert first.code == 0, first.err
    assert "on test at best validation" in first.out
    again = command("run", *said, *QUICK, "--seed", "2", "--from", "a", "--out", "b")
    assert again.code == 0, again.err
    client = ["--client", "north"] if "graphs" in str(said) else []
    given = [part for name, path in asked.items() for part in (f"--{name}", path)]
    for command_line in (
        ["predict", "a", *given, *client, "-o", "answers.csv"],
        ["report", "a", "b", "-o", "report.html"],
        ["compare", "a", "b"],
        ["resume", "a"],
    ):
        done = command(*command_line)
        assert done.code == 0, done.err
    assert len(pd.read_csv("answers.csv"))
