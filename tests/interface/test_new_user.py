"""A new user with CSV files of three silos, the README and `--help`: trained and asked in two commands."""

import re
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SILOS = np.array(["north", "south", "west"])
README = (Path(__file__).parents[2] / "README.md").read_text()
QUICK = ("rounds=1", "runtime.workers=0")
"""What the tests alone add."""


def graph():
    """Ninety nodes of two classes in three silos, and edges that stay within a class."""
    g, number = np.random.default_rng(0), np.arange(90)
    kind = number // 3 % 2
    nodes = pd.DataFrame({"node": number, "label": np.array(["fine", "fraud"])[kind], "client": SILOS[number % 3]})
    ends = g.integers(0, 45, (2, 200)) * 2
    return {
        "nodes": nodes.assign(age=kind + g.random(90), amount=g.random(90)),
        "edges": pd.DataFrame({"source": ends[0], "target": ends[1]}),
    }


def graphs():
    """Twelve rings and twelve paths of five nodes."""
    number, node = np.arange(24), np.arange(5)
    rows = pd.DataFrame({"graph": np.repeat(number, 5), "node": np.tile(node, 24)})
    edges = rows.rename(columns={"node": "source"}).assign(target=(rows["node"] + 1) % 5)
    return {
        "graphs": pd.DataFrame(
            {"graph": number, "label": np.array(["path", "ring"])[number % 2], "client": SILOS[number // 2 % 3]}
        ),
        "nodes": rows.assign(kind="carbon"),
        "edges": edges[(edges["source"] < 4) | (edges["graph"] % 2 == 1)],
    }


def ratings():
    user, item = (each.ravel() for each in np.meshgrid(np.arange(20), np.arange(18)))
    rows = pd.DataFrame({"user": user, "item": item, "rating": 1 + user % 3 + item % 3, "client": SILOS[item % 3]})
    return {"ratings": rows[(user + item) % 2 == 0]}


def clicks():
    """Each of thirty users takes six of the ten items that are of its kind; three shops."""
    user, item = (each.ravel() for each in np.meshgrid(np.arange(30), np.arange(20)))
    rows = pd.DataFrame({"user": user, "item": item, "client": SILOS[user % 3]})
    return {"interactions": rows[(user % 2 == item % 2) & ((user // 2 + item // 2) % 5 < 3)]}


NEW_GRAPH = {
    "nodes": pd.DataFrame({"graph": "new", "node": [0, 1, 2], "kind": "carbon", "client": "north"}),
    "edges": pd.DataFrame({"graph": "new", "source": [0, 1], "target": [1, 2]}),
}
CASES = {
    "ratings": ("graft_rating", "table", ratings, {"pairs": pd.DataFrame({"user": [1, 2, "new"], "item": [3, 4, 5]})}),
    "nodes": ("graft_node", "nodes", graph, {"nodes": pd.DataFrame({"node": [0, 1]})}),
    "graphs": ("graft_graph", "graphs", graphs, NEW_GRAPH),
    "clicks": ("graft_ranking", "interactions", clicks, {"users": pd.DataFrame({"user": [0, 1], "k": 1})}),
    "links": ("links", "nodes", graph, {"pairs": pd.DataFrame({"source": [0, 1], "target": [6, 4]})}),
}


@pytest.mark.parametrize("kind", CASES)
def test_two_commands_train_and_predict(fedgraft, kind):
    recipe, data, made, asked = CASES[kind]
    tables = made()
    for name, table in (*tables.items(), *((f"asked_{name}", table) for name, table in asked.items())):
        table.to_csv(f"{name}.csv", index=False)
    options = [f"data.{name}={name}.csv" for name in tables]
    questions = [*chain(*((f"--{name}", f"asked_{name}.csv") for name in asked))]
    assert_told(recipe, *(option.partition("=")[0] for option in options), *questions[::2], *columns_of(tables))
    trained = fedgraft("run", recipe, f"data.name={data}", *options, "--out", "runs/mine", *QUICK)
    assert trained.code == 0, trained.err
    assert "runs/mine" in trained.out
    answered = fedgraft("predict", "runs/mine", *questions, "-o", "answers.csv")
    assert answered.code == 0, answered.err
    answers = pd.read_csv("answers.csv")
    assert len(answers) == next(iter(asked.values())).iloc[:, 0].nunique()
    assert set(answers["client"]) <= {*SILOS}
    assert answers.notna().all(axis=None)


def columns_of(tables):
    """Names of columns that data must have; those of features are the user's own."""
    return {name for table in tables.values() for name in table} - {"age", "amount"}


def assert_told(*words):
    """Each is a word of the README's."""
    for word in words:
        assert re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w.])", README), word
