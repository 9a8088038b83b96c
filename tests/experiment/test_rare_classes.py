"""A user's own tables in which one class is rare: what is judged, answered, shown and said."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.running.remarks import remarks
from fedgraft.experiment.running.runner import execute
from fedgraft.interface.commands.ends import result_lines
from fedgraft.methods.models.sage import SAGE
from fedgraft.methods.tasks.node import Node
from fedgraft.reports.figures.curve_figures import precision_recall
from fedgraft.reports.pages.page_classes import confusion_of
from fedgraft.reports.stored.stored_runs import StoredRun

QUICK = {"runtime.workers": 0, "baselines": [], "model.hidden": [8], "selector.name": "all"}


def bank(folder, rate=0.06, accounts=400, seed=0):
    """Overrides of nodes whose risk tells which few of them are frauds."""
    g, node = np.random.default_rng(seed), np.arange(accounts)
    risk = g.random(accounts)
    score = 8 * risk + g.normal(size=accounts)
    label = np.where(score > np.quantile(score, 1 - rate), "fraud", "ok")
    split = np.where(node % 5 == 0, "test", np.where(node % 5 == 1, "validation", "train"))
    columns = {"node": node, "label": label, "client": node % 3, "split": split, "risk": risk.round(4)}
    pd.DataFrame(columns | {"noise": g.normal(size=accounts).round(3)}).to_csv(folder / "nodes.csv", index=False)
    ends = g.integers(0, accounts, (2, 2 * accounts))
    pd.DataFrame({"source": ends[0], "target": ends[1]}).query("source != target").to_csv(
        folder / "edges.csv", index=False
    )
    return {"data.name": "nodes", **{f"data.{name}": str(folder / f"{name}.csv") for name in ("nodes", "edges")}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bank")
    summary = execute(load("graft_node", {**QUICK, **bank(folder), "rounds": 6}), folder / "run")
    return folder / "run", summary


def test_average_precision_of_the_rarer_class_is_what_is_judged(finished):
    _, summary = finished
    assert (summary["metric"], summary["better"]) == ("average_precision", "higher")
    measures = summary["measures"]["test"]
    assert summary["test_at_best_validation"] == measures["average_precision"]
    assert {"auc", "f1", "macro_f1", "balanced_accuracy", "precision_at_1", "recall_at_10"} <= measures.keys()
    assert measures["auc"] > 0.9
    assert summary["threshold"]["class"] == "fraud"
    lines = "\n".join(result_lines(summary, finished[0]))
    assert "the rarer class is 'fraud'" in lines
    assert "it is answered from a probability of" in lines


def test_the_threshold_of_the_run_tells_the_class_unless_another_is_given(finished):
    folder, summary = finished
    asked = pd.DataFrame({"node": range(400)})
    least = summary["threshold"]["threshold"]
    answers = predict(folder, {"nodes": asked}, probabilities=True)
    found = answers["probability_fraud"] >= least
    assert 0 < found.sum() < 400
    assert (answers["class"] == np.where(found, "fraud", "ok")).all()
    assert np.allclose(answers["probability"], answers["probability_fraud"].where(found, answers["probability_ok"]))
    assert (predict(folder, {"nodes": asked}, threshold=0.0)["class"] == "fraud").all()
    with pytest.raises(InputError, match=r"--threshold must be a probability, in \[0, 1\]; got 1.5"):
        predict(folder, {"nodes": asked}, threshold=1.5)


def test_the_report_has_the_curve_and_counts_answers_by_the_threshold(finished):
    folder, summary = finished
    run = StoredRun(folder)
    figure = precision_recall([run])
    assert "'fraud'" in figure.layout.meta["note"]
    confusion = confusion_of(run.run_folder)
    positive_class = confusion.classes.index("fraud")
    assert confusion.scores[positive_class].f1 == pytest.approx(summary["measures"]["test"]["f1"], abs=0.02)


def test_what_is_chosen_by_the_data_is_said(tmp_path, caplog):
    own = bank(tmp_path)
    task = load("graft_node", {**QUICK, **own}).agreed()
    task.fitted(task.shards())
    assert "The rarer class 'fraud' is 5.42%" in caplog.text
    assert "average precision" in caplog.text
    assert "Class weights are none by default, as loss.logit_adjustment = 1 does much of what they do; " in caplog.text
    assert "loss.class_weights = 'balanced' with loss.logit_adjustment = 0 sets them." in caplog.text
    plain = {"loss.label_smoothing": 0.0, "loss.logit_adjustment": 0.0}
    for options in (plain, {**plain, "loss.class_weights": "balanced"}, {**plain, "loss.focal": 2.0}):
        caplog.clear()
        task = load("graft_node", {**QUICK, **own, **options}).agreed()
        task.fitted(task.shards())
        assert "The rarer class 'fraud'" in caplog.text
        said = (
            "Class weights are none by default; loss.class_weights = 'balanced' or loss.focal sets them." in caplog.text
        )
        assert said == (options == plain)
    caplog.clear()
    task = load("graft_node", {**QUICK, **own, "evaluation.metric": "accuracy"}).agreed()
    assert task.fitted(task.shards()).plan.task.metric == "accuracy"
    assert "rarer" not in caplog.text


@pytest.mark.parametrize("option", [{"loss.class_weights": "balanced"}, {"loss.focal": 2.0}])
@pytest.mark.parametrize("recipe", ["links", "node_regression"])
def test_weights_of_a_task_without_classes_are_one_line(tmp_path, recipe, option):
    (key,) = option
    only = rf"No loss option named '{key[5:]}' with loss.name = .*'cross_entropy' has it\.$"
    with pytest.raises(InputError, match=only):
        load(recipe, {**bank(tmp_path), **option})


def test_of_several_own_classes_auc_is_the_mean_over_classes(tmp_path):
    own = bank(tmp_path)
    table = pd.read_csv(tmp_path / "nodes.csv")
    table.assign(label=pd.cut(table["risk"], 30, labels=False)).to_csv(tmp_path / "nodes.csv", index=False)
    summary = execute(load("graft_node", {**QUICK, **own, "rounds": 1}))
    assert summary["metric"] == "accuracy"
    assert {"auc", "average_precision"} <= summary["measures"]["test"].keys()


def test_classes_that_are_even_are_judged_by_accuracy(tmp_path):
    task = load("graft_node", {**QUICK, **bank(tmp_path, rate=0.4)}).agreed()
    assert task.fitted(task.shards()).plan.task.metric == "accuracy"


def said_of(validation, label, round=3, judged="accuracy", majority=0.0):
    """Remarks on a run of which a model is kept that answers so of validation nodes with these classes."""
    task = Node(SAGE(), judged=judged, class_names=("ok", "fraud"), classes=2, positive_class="fraud")
    sums = task.labels.sums_by(np.array(validation, np.float32), np.array(label))
    score = task.score(sums)
    best = {"round": round, "validation": score, "test": score, "sums": {"validation": sums}}
    baselines = {"node_majority": {"validation": majority, "test": majority}}
    return remarks(SimpleNamespace(task=task, start={}), SimpleNamespace(best=best, round=20), baselines)


def test_the_untrained_model_is_not_kept_in_silence():
    sure, label = [[0.9, 0.1], [0.8, 0.2], [0.2, 0.8]], [0, 0, 1]
    assert said_of(sure, label) == []
    (said,) = said_of(sure, label, round=0)
    assert said.startswith("The untrained model is kept: accuracy on validation was best in round 0, and none of 20 ")
    assert "evaluation.metric=average_precision" in said


@pytest.mark.parametrize("judged", ["accuracy", "balanced_accuracy", "auc", "average_precision"])
def test_a_score_at_chance_is_said(judged):
    (said,) = said_of([[0.9, 0.1]] * 4, [0, 0, 0, 1], judged=judged)
    assert said.startswith(f"The score is at chance: {judged}")


def test_one_class_on_validation_is_said():
    (said,) = said_of([[0.9, 0.1]] * 4, [0, 0, 0, 0])
    assert "All 4 validation examples are of one class" in said


def test_baselines_tell_the_metric_of_the_run(tmp_path):
    own = {**bank(tmp_path), "rounds": 1, "baselines": ["node_majority", "mlp", "smoothed_features"]}
    scores = execute(load("graft_node", {**QUICK, **own}))["baselines"]
    label = pd.read_csv(tmp_path / "nodes.csv").query("split == 'test'")["label"]
    assert scores["node_majority"] == pytest.approx((label == "fraud").mean())
    assert 0 < scores["mlp"] < 0.9  # as accuracies they would be above
    assert 0.1 < scores["smoothed_features"] < 0.9


def test_balanced_weights_are_published_and_charged(tmp_path):
    own, recipe = bank(tmp_path), {**QUICK, "rounds": 1, "loss.logit_adjustment": 0.0}
    one, two = (
        execute(load("graft_node", {**recipe, **own, "loss.class_weights": weights})) for weights in ("", "balanced")
    )
    assert two["bytes"]["statistics"] - one["bytes"].get("statistics", 0) >= 3 * 2 * 2 * 8
    assert one["digest"] != two["digest"]


@pytest.mark.parametrize(
    ("metric", "said"), [("recall", "macro_f1, balanced"), ("rmse", "for the task 'node'"), ("acuracy", "'accuracy'?")]
)
def test_a_metric_that_does_not_fit_is_one_line(metric, said):
    with pytest.raises(InputError, match=r"evaluation\.metric must be one of accuracy") as error:
        load("graft_node", {"evaluation.metric": metric})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_weights_of_a_class_that_there_is_not_name_the_nearest(tmp_path):
    own = {**QUICK, **bank(tmp_path), "loss.class_weights": {"frauds": 20.0}}
    with pytest.raises(InputError, match=r"loss\.class_weights: the data have no class 'frauds'.* mean 'fraud'\?"):
        execute(load("graft_node", own))


def test_one_class_is_an_error_that_names_it(tmp_path):
    own = bank(tmp_path)
    table = pd.read_csv(tmp_path / "nodes.csv").assign(label="confirmed")
    table.to_csv(tmp_path / "nodes.csv", index=False)
    with pytest.raises(InputError, match="training examples are of one class 'confirmed'"):
        execute(load("graft_node", {**QUICK, **own, "rounds": 1}))


def test_numbers_that_are_all_equal_are_an_error(tmp_path):
    own = bank(tmp_path)
    pd.read_csv(tmp_path / "nodes.csv").assign(label=7.5).to_csv(tmp_path / "nodes.csv", index=False)
    with pytest.raises(InputError, match=r"have the same number, 7\.5: the target is constant"):
        execute(load("node_regression", {"runtime.workers": 0, "baselines": [], **own, "rounds": 1}))


@pytest.mark.parametrize("metric", ["mae", "r2"])
def test_numbers_are_judged_by_what_is_asked_for(tmp_path, metric):
    own = bank(tmp_path)
    pd.read_csv(tmp_path / "nodes.csv").assign(label=lambda table: 100 * table["risk"]).to_csv(
        tmp_path / "nodes.csv", index=False
    )
    wanted = {**own, "rounds": 2, "evaluation.metric": metric, "baselines": ["node_ridge", "node_mean"]}
    summary = execute(load("node_regression", {"runtime.workers": 0, **wanted}))
    assert summary["test_at_best_validation"] == summary["measures"]["test"][metric]
    assert summary["better"] == ("higher" if metric == "r2" else "lower")
    assert (summary["baselines"]["node_ridge"] > 0.9) if metric == "r2" else (summary["baselines"]["node_ridge"] < 9)
