"""What a run is told of a model that is no better than none: of each task, in each measure, in one sentence."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedgraft.domains.labels.metric_classes import METRICS
from fedgraft.experiment.job import load
from fedgraft.experiment.running.baseline_scores import constant
from fedgraft.experiment.running.remarks import remarks, survival
from fedgraft.methods.losses.cross_entropy import CrossEntropy

NAMES = ("ok", "fraud", "odd")


@pytest.mark.parametrize(
    ("rule", "survives", "said"),
    [
        ("mean", {"clients": 4, "liars": 0}, ""),
        ("krum", None, ""),
        ("krum", {"clients": 4, "liars": 1}, "survives 1 liar among 4 clients, the fewest whose updates were merged"),
        ("median", {"clients": 9, "liars": 4}, "aggregation median survives 4 liars among 9 clients, the fewest"),
        ("median", {"clients": 1, "liars": 0}, "survives no liar among 1 client, the fewest"),
    ],
)
def test_a_robust_rule_says_how_many_liars_it_survives(rule, survives, said):
    assert said in survival(rule, survives)
    assert bool(said) == bool(survival(rule, survives))


def remarks_of(task, sums, round=3, constants=None, start=None, test=None):
    """Remarks on a kept model with these sums on validation, after 20 rounds."""
    by_split = {"validation": sums, "test": test or sums}
    best = {"round": round, **{split: task.score(each) for split, each in by_split.items()}, "sums": by_split}
    state = SimpleNamespace(best=best, round=20)
    return remarks(SimpleNamespace(task=task, start=start or {}), state, constants or {})


def task_of(recipe, **options):
    return replace(
        load(recipe, {"data.name": "blocks"} if recipe in ("graft_node", "links", "fedais") else {}).plan.task,
        **options,
    )


def nodes(metric, classes=2, name="graft_node"):
    names = NAMES[:classes]
    known = {"class_names": names, "classes": classes} if name == "graft_node" else {"class_names": names}
    return task_of(name, judged=metric, positive_class="fraud" if classes == 2 else "", **known)


def guessed(task, classes, n=400):
    """Sums of examples of which the first class is most frequent, all answered alike: by how frequent classes are."""
    label = np.repeat(np.arange(classes), [n - 40 * (classes - 1), *[40] * (classes - 1)])
    shares = np.tile(np.bincount(label) / n, (n, 1)).astype(np.float32)
    return task.labels.sums_by(shares, label)


def known(task, classes, n=400):
    """Sums of the same examples, all of them told rightly and surely."""
    label = np.repeat(np.arange(classes), [n - 40 * (classes - 1), *[40] * (classes - 1)])
    return task.labels.sums_by(np.clip(np.eye(classes, dtype=np.float32)[label], 0.01, 0.99), label)


@pytest.mark.parametrize("recipe", ["graft_node", "graft_graph"])
@pytest.mark.parametrize(
    ("metric", "classes"),
    [(metric, classes) for metric in METRICS for classes in (2, 3) if (metric, classes) != ("f1", 3)],
)
def test_classes(recipe, metric, classes):
    task = nodes(metric, classes, recipe)
    (said,) = remarks_of(task, guessed(task, classes))
    assert said.startswith(f"The score is at chance: {metric} ")
    assert remarks_of(task, known(task, classes)) == []
    (said,) = remarks_of(task, guessed(task, classes), round=0)
    assert said.startswith(f"The untrained model is kept: {metric} on validation was best in round 0")
    assert "it is at chance" in said
    (said,) = remarks_of(task, known(task, classes), round=0)
    assert "chance" not in said
    assert ("loss.class_weights=balanced" in said, "evaluation.metric" in said) == (True, metric == "accuracy")


def test_twice_the_share_of_a_class_of_one_in_a_thousand_is_a_find():
    task, label = nodes("average_precision"), (np.arange(4000) < 4).astype(np.int64)
    for above, at_chance in ((200, False), (3996, True)):
        share = np.where((label == 1) | (np.arange(4000) < above), 0.6, 0.4)
        sums = task.labels.sums_by(np.stack([1 - share, share], 1).astype(np.float32), label)
        assert 0.0009 < task.score(sums) < 0.03
        assert bool(remarks_of(task, sums)) == at_chance


def test_weights_that_are_set_are_not_suggested_and_a_given_start_is_named():
    task = replace(nodes("accuracy"), objective=CrossEntropy(class_weights="balanced"))
    (said,) = remarks_of(task, known(task, 2), round=0, start={"weight": np.zeros(1)})
    assert said.startswith("The model that the run began with is kept")
    assert "class_weights" not in said


def test_published_nodes_are_told_by_their_counts_and_graphs_by_the_baseline():
    task = task_of("fedais", classes=2, class_names=NAMES[:2])
    sums = task.labels.sums_by(np.tile(np.float32([0.9, 0.1]), (10, 1)), np.repeat([0, 1], [9, 1]))
    (said,) = remarks_of(task, sums)
    assert said == "The score is at chance: accuracy 0.9000 on validation, where the most frequent class has 0.9000."
    task, sums = task_of("graft_graph"), {"correct": 7.0, "count": 10.0, "loss": 5.0}
    assert remarks_of(task, sums) == []
    (said,) = remarks_of(task, sums, constants={"majority": {"validation": 0.7}})
    assert "where the baseline majority has 0.7000" in said
    assert remarks_of(task, sums, constants={"majority": {"validation": 0.6}}) == []


@pytest.mark.parametrize("recipe", ["node_regression", "graph_regression"])
@pytest.mark.parametrize("metric", ["rmse", "r2", "mae"])
def test_numbers(recipe, metric):
    task, mean = task_of(recipe, judged=metric), {"node_mean": {"validation": 2.0}}
    sums = {"squared_error": 100.0, "count": 20.0, "absolute_error": 40.0, "squared_deviation": 100.0}
    (said,) = remarks_of(task, sums, constants=mean)
    assert said.startswith(f"The score is at chance: {metric} ")
    assert "mean has" in said
    (said,) = remarks_of(task, sums, constants=mean, round=0)
    assert "it is at chance" in said
    assert "class_weights" not in said
    assert remarks_of(task, {**sums, "squared_error": 50.0, "absolute_error": 20.0}, constants=mean) == []


@pytest.mark.parametrize("metric", ["", "average_precision", "hits_at_10"])
def test_links(metric):
    task = task_of("links", judged=metric)
    at = {"edges": 10.0, "auc": 5.0, "precision": 5.0, "hits": 1.0, "loss": 7.0}
    (said,) = remarks_of(task, at)
    assert "where a random order has 0.5000" in said
    assert remarks_of(task, {**at, "auc": 8.0, "precision": 8.0}) == []


def test_rankings_and_ratings():
    task = task_of("graft_ranking")
    (said,) = remarks_of(task, {"users": 10.0, "auc": 5.0, "ndcg": 1.0, "recall": 1.0}, round=0)
    assert said.startswith("The untrained model is kept: auc on validation was best in round 0")
    assert "a random order has 0.5000" in said
    assert "class_weights" not in said
    task, mean = task_of("fedacs"), {"global_mean": {"validation": 1.0}}
    (said,) = remarks_of(task, {"squared_error": 10.0, "count": 10.0}, constants=mean)
    assert said == "The score is at chance: rmse 1.0000 on validation, where the baseline global_mean has 1.0000."
    assert remarks_of(task, {"squared_error": 8.0, "count": 10.0}, constants=mean) == []


def test_baselines_that_say_the_same_of_everything():
    names = ["node_majority", "majority", "typed_majority", "node_mean", "graph_mean", "global_mean"]
    others = ["local_only", "centralised", "mlp", "popularity", "client_biases", "adamic_adar"]
    assert list(constant({name: {} for name in [*names, *others]})) == names


def test_nothing_is_said_where_nothing_is_scored():
    task = nodes("auc")
    nothing = task.labels.sums_by(np.zeros((0, 2), np.float32), np.zeros(0, np.int64))
    assert remarks_of(task, nothing) == []
    (said,) = remarks_of(task, task.labels.sums_by(np.float32([[0.9, 0.1]] * 3), np.zeros(3, np.int64)), round=0)
    assert said.startswith("All 3 validation examples are of one class")


def test_a_test_split_of_one_class_is_said_beside_the_rest():
    task = nodes("average_precision")
    one = task.labels.sums_by(np.float32([[0.9, 0.1]] * 3), np.zeros(3, np.int64))
    (said,) = remarks_of(task, known(task, 2), test=one)
    assert said == "All 3 test examples are of one class: the score on test means nothing."
    assert len(remarks_of(task, guessed(task, 2), test=one)) == 2
