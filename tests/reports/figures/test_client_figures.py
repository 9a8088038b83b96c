"""Scores per client, the length of a message, and where examples lie."""

import pandas as pd
import pytest
import torch

from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.experiment.running.runner import execute
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.reports.figures.client_figures import (
    FEW_CLIENTS,
    bytes_by_codec,
    codec_name,
    embed,
    representations,
    score_per_client,
)
from fedgraft.reports.stored.stored_runs import StoredRun

TINY = {
    "data.name": "molecules",
    "data.clients": 3,
    "data.graphs": 60,
    "model.hidden": 8,
    "sharing.probability": 1.0,
    "rounds": 4,
    "runtime.workers": 0,
    "baselines": [],
}


@pytest.fixture(scope="module")
def graph_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs") / "run"
    execute(jobs.load("cefgl", TINY), folder)
    return StoredRun(folder)


def test_every_client_has_a_dot_at_its_score(graph_run):
    figure = score_per_client([graph_run])
    (dots,) = figure.data
    scores = graph_run.summary["test_per_client"]
    assert dict(zip(dots.customdata, dots.x, strict=True)) == scores
    assert list(figure.layout.yaxis.ticktext) == [f"{number}: {name}" for number, name in enumerate(scores)]


def test_scores_of_many_clients_are_one_curve(graph_run):
    many = {f"client {k}": (k * 7 % (FEW_CLIENTS + 1)) / 100 for k in range(FEW_CLIENTS + 1)}
    graph_run = StoredRun(graph_run.path)
    graph_run.summary = {**graph_run.summary, "test_per_client": many}
    (curve,) = score_per_client([graph_run]).data
    assert list(curve.y) == sorted(many.values())
    assert [many[name] for name in curve.text] == list(curve.y)
    assert 0 < curve.x[0] < curve.x[-1] < 100


def test_messages_are_as_long_as_the_ledger_says(graph_run):
    bars, raw = bytes_by_codec([graph_run]).data
    model = graph_run.ledger[graph_run.ledger["purpose"] == "model"]
    for place, direction in enumerate(("down", "up")):
        mean = model.loc[model["direction"] == direction, "bytes"].mean()
        assert raw.x[place] / bars.x[place] == pytest.approx(graph_run.shared_bytes / mean)
    assert graph_run.shared_bytes == 4 * 4 * (8 * 8 + 8)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"codec": "identity"}, "identity"),
        ({"codec": [{"name": "low_rank"}, {"name": "quantized", "bits": 4}]}, "low_rank, quantized (4 bits)"),
        ({"codec": {"name": "sparse", "feedback": True}}, "sparse with feedback"),
        ({"codec": {"name": "chain", "codecs": [{"name": "float16"}], "feedback": True}}, "float16 with feedback"),
        ({"codec": "sparse", "downlink": "float16"}, "float16"),
    ],
)
def test_codecs_are_named_as_people_would(content, text):
    assert codec_name(content, "down") == text


def test_test_examples_lie_somewhere_for_each_channel(graph_run):
    points = embed(graph_run.run_folder)
    assert set(points["channel"]) == {"own model", "shared alone"}
    assert points["client"].nunique() == 3
    assert points[["x", "y"]].notna().all().all()
    figure = representations(graph_run, points)
    assert sum(len(trace.x) for trace in figure.data if not trace.showlegend and trace.x[0] is not None) == len(points)
    assert "test graphs" not in figure.layout.title.text
    assert "left out" not in figure.layout.title.text


def test_a_legend_names_classes_and_a_note_the_clients_left_out(graph_run):
    names = list(graph_run.summary["test_per_client"])
    points = pd.DataFrame(
        {"channel": "own model", "client": names[0], "class": ["b", "a"], "x": [0.0, 1.0], "y": [1.0, 2.0]}
    )
    figure = representations(graph_run, points)
    keys = [trace for trace in figure.data if trace.showlegend is not False]
    assert [trace.name for trace in keys] == ["a", "b"]
    drawn = {trace.name: trace.marker.color for trace in figure.data if trace.showlegend is False}
    assert drawn == {trace.name: trace.marker.color for trace in keys}
    assert f"left out, with too few test examples: {names[1]}, {names[2]}" in figure.layout.title.text


def test_names_of_clients_and_classes_are_text_not_markup(graph_run):
    name = "<a href='https://evil'>a</a> %{evil}"
    points = pd.DataFrame({"channel": "own model", "client": name, "class": name, "x": [0.0], "y": [1.0]})
    drawn = representations(graph_run, points).to_plotly_json()
    (trace, key), (title, *_) = drawn["data"], drawn["layout"]["annotations"]
    for text in (trace["name"], key["name"], trace["hovertemplate"], title["text"]):
        assert "&lt;a" in text
        assert "<a" not in text
        assert "%{" not in text


def test_ratings_have_no_hidden_layer_to_show(finished_run):
    with pytest.raises(InputError, match="task 'rating' has no hidden layer"):
        embed(RunFolder.open(finished_run))


def test_a_client_s_model_has_the_score_of_the_summary(graph_run):
    run = open_run(graph_run.path)
    for number, name in enumerate(run.names):
        task, data = run.plan.task, run.prepared(number)
        with torch.no_grad():
            sums = task.evaluate(run.client_model(number), data)
        assert task.score(sums["test"]) == pytest.approx(graph_run.summary["test_per_client"][name])


def test_classes_of_new_graphs(graph_run):
    names = open_run(graph_run.path).names
    kind = open_run(graph_run.path).shards[0].kind_names[0]
    nodes = pd.DataFrame({"graph": ["g"] * 3, "node": [0, 1, 2], "kind": [kind, kind, "unheard of"]})
    edges = pd.DataFrame({"graph": ["g", "g"], "source": [0, 1], "target": [1, 2]})
    found = predict(graph_run.path, {"nodes": nodes, "edges": edges}, client=names[0])
    assert found["graph"].tolist() == ["g"]
    assert found["client"].tolist() == [names[0]]
    assert 0 < found["probability"][0] <= 1
    with pytest.raises(InputError, match="--pairs is not for task 'graph', which takes --graphs, --nodes, --edges"):
        predict(graph_run.path, {"pairs": nodes})
