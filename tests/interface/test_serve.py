"""Predictions over HTTP are those of the command line, for every task, from a run that is loaded once."""

import csv
import json
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.predicting import predict
from fedgraft.experiment.running.runner import execute
from fedgraft.interface import serve
from helpers.asgi import Client
from helpers.served_runs import OWN, QUESTIONS, QUICK, RUNS, make_runs

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_runs(tmp_path_factory.mktemp("served"))


def asked(client: Client, request: object) -> list[dict[str, Any]]:
    done = client.post("/predict", json=request)
    assert done.status_code == 200, done.text
    assert done.headers["content-type"] == "application/json"
    found = done.json()
    assert list(found) in (["answers"], ["answers", "notes"])
    return found["answers"]


def from_the_command_line(fedgraft, folder: Path, request: dict[str, Any]) -> list[dict[str, str]]:
    options = []
    for name, table in request["tables"].items():
        pd.DataFrame(table, dtype=object).to_csv(f"{name}.csv", index=False)
        options += [f"--{name}", f"{name}.csv"]
    for key, option in (("client", "--client"), ("count", "-k")):
        options += [option, request[key]] if key in request else []
    done = fedgraft("predict", folder, "-o", "answers.csv", *options)
    assert done.code == 0, done.err
    with Path("answers.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def same(value: object, text: str) -> bool:
    """Whether a value of JSON is what a CSV file says, to the last digit."""
    if value is None or isinstance(value, str):
        return (value or "") == text
    return float(text) == value


@pytest.mark.parametrize("task", RUNS)
def test_answers_are_those_of_the_command_line(fedgraft, folders: dict[str, Path], task: str) -> None:
    client = Client(serve.app(folders[task]))
    first = asked(client, QUESTIONS[task])
    expected = from_the_command_line(fedgraft, folders[task], QUESTIONS[task])
    assert len(first) == len(expected) > 0
    for row, told in zip(first, expected, strict=True):
        assert list(row) == list(told)
        assert all(same(row[name], told[name]) for name in row), (row, told)
    assert asked(client, QUESTIONS[task]) == first, "what was loaded is not used up"


def test_own_tables_answer_where_the_runs_data_are_not(fedgraft, folders: dict[str, Path], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    rows = np.arange(200)
    table = {"user": rows % 17, "item": rows // 9, "rating": 1 + rows % 5, "category": rows % 4}
    pd.DataFrame(table).to_csv(tmp_path / "all.csv", index=False)
    data = {"data.name": "table", "data.ratings": str(tmp_path / "all.csv"), "data.low": 1, "data.high": 5}
    execute(jobs.load("fedacs", {**data, "data.clients": 2, **QUICK}), copy)
    pairs = {"pairs": [{"user": "ann", "item": "tea"}, {"user": "zoe", "item": "pie"}]}
    request = {"tables": {**pairs, "data": OWN, "trust": {"user": ["ben"], "trusts": ["ann"]}}}
    there = asked(Client(serve.app(copy)), request)
    (tmp_path / "all.csv").unlink()
    client = Client(serve.app(copy))
    assert asked(client, request) == there
    expected = from_the_command_line(fedgraft, copy, request)
    assert [float(row["rating"]) for row in expected] == [row["rating"] for row in there]
    assert {row["client"] for row in there} == {"own"}
    done = client.post("/predict", json={"tables": pairs})
    assert done.status_code == 422
    assert done.json() == {"error": "The run's data are not here: give --data, one client's own data."}
    assert client.get("/schema").json()["properties"]["tables"]["required"] == ["data"]


def test_without_its_data_and_any_that_stand_in_a_run_is_not_served(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["graph"], tmp_path / "run")
    text = (tmp_path / "run" / "experiment.toml").read_text()
    (tmp_path / "run" / "experiment.toml").write_text(text.replace("graphs = 20", "graphs = 21"))
    with pytest.raises(InputError, match=r"experiment\.toml"):
        serve.app(tmp_path / "run")


def test_it_says_which_run_answers_and_how_to_ask(folders: dict[str, Path]) -> None:
    client = Client(serve.app(folders["node"]))
    summary = json.loads((folders["node"] / "summary.json").read_text())
    assert client.get("/health").json() == {
        "status": "ok",
        "run": "node",
        "recipe": "fedais",
        "task": "node",
        "metric": "accuracy",
        "score": summary["test_at_best_validation"],
        "digest": summary["digest"],
    }
    listed = client.get("/").json()
    assert listed["run"] == "node"
    for endpoint in listed["endpoints"]:
        method, path = endpoint.split()
        assert client.request(method, path).status_code != 404
    assert list(client.get("/schema").json()["properties"]["tables"]["properties"]) == [
        "nodes",
        "edges",
        "data",
        "data-edges",
    ]


def test_answers_may_not_be_too_many(folders: dict[str, Path]) -> None:
    client = Client(serve.app(folders["ranking"], max_rows=20))
    users = [{"user": "user-02"}, {"user": "user-01"}]
    for request, answers in (
        ({"tables": {"users": users}, "count": 10}, 20),
        ({"tables": {"users": users}, "count": 11}, "22"),
        ({"tables": {"users": [{**each, "k": 11} for each in users]}}, "22"),
        ({"tables": {"users": [{**users[0], "k": 1}, {**users[1], "k": "19"}]}}, 20),
        ({"tables": {"users": [{**users[0], "k": 1e999}]}}, "inf"),
        ({"tables": {"users": users}, "count": 10**30}, "2,000,000,000,000,000"),
    ):
        done = client.post("/predict", content=json.dumps(request).replace("Infinity", "1e999"), headers=JSON)
        if isinstance(answers, int):
            assert len(done.json()["answers"]) == answers
        else:
            assert done.status_code == 413
            assert done.json()["error"].startswith(
                answers if answers != "22" else "22 answers are asked for; at most 20"
            )
    done = client.post("/predict", json={"tables": {"users": [{**users[0], "k": "many"}]}})
    assert (done.status_code, done.json()["error"]) == (
        422,
        "predict.k must be a whole number in [1, 1,000,000]; got 'many'.",
    )


def test_a_run_is_loaded_once_and_predicts_one_at_a_time(folders: dict[str, Path], monkeypatch) -> None:
    client = Client(serve.app(folders["rating"]))
    first = asked(client, QUESTIONS["rating"])

    def loaded(*arguments: object) -> None:
        raise AssertionError

    monkeypatch.setattr(type(jobs.load("fedacs", {}).data), "load", loaded)
    at_it, let_go, most, now = threading.Event(), threading.Event(), [0], [0]

    def watched(*arguments: Any, **named: Any) -> pd.DataFrame:
        now[0] += 1
        most[0] = max(most[0], now[0])
        at_it.set()
        assert let_go.wait(60)
        try:
            return predict.predict(*arguments, **named)
        finally:
            now[0] -= 1

    monkeypatch.setattr(serve, "predict", watched)
    found: list[Any] = []
    several = [("POST", "/predict", {"json": QUESTIONS["rating"]})] * 4
    thread = threading.Thread(target=lambda: found.extend(client.together(*several)))
    thread.start()
    assert at_it.wait(60)
    assert client.get("/health").json()["status"] == "ok", "while a prediction runs"
    assert not found
    let_go.set()
    thread.join(60)
    assert [done.json()["answers"] for done in found] == [first] * 4
    assert most == [1]
