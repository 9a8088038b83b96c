"""A task and a domain outside the tree, as CONTRIBUTING shows them: installed, run, asked, exported and reported."""

import importlib
import json
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fedgraft.experiment.predicting.export import exported
from helpers.command import caller

ROOT = Path(__file__).parents[2]
HEADING = "## A task and a domain of your own\n"
FILE = re.compile(r"^`([^`\n]+)`:\n\n```(?:python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = "my_roads"
KINDS = {
    "several numbers of roads": {},
    "a number of roads": {"several": False},
    "a class of roads": {"kind": "classes", "several": False},
    "several classes of crossings": {"kind": "classes", "of": "crossings"},
}
"""{what is told, of what: options of the data}; some labels are missing in each."""
SEVERAL, ONE = [], [pytest.mark.slow]
"""Marks of tests of several classes, and of others."""


def shown() -> dict[str, str]:
    """{name: text} of the guide's files."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text[text.index(HEADING) :].removeprefix(HEADING).partition("\n## ")[0]
    return dict(FILE.findall(section))


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """The folder of the package, installed as pip does it: its files, and what it publishes."""
    site = tmp_path / "site"
    for name, text in shown().items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    project = tomllib.loads(shown()["pyproject.toml"])["project"]
    groups = project["entry-points"].items()
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items()) for group, points in groups
    ]
    notes = site / f"{CODE}-{project['version']}.dist-info"
    notes.mkdir()
    (notes / "entry_points.txt").write_text("\n".join(lines))
    (notes / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield site
    sys.modules.pop(CODE, None)


@pytest.fixture
def command(installed, monkeypatch, capsys, tmp_path):
    return caller(monkeypatch, capsys, tmp_path)


def test_it_takes_one_module_and_the_lines_that_publish_it():
    """Count the places that a new task of a new domain takes: none of them is in fedgraft."""
    files = shown()
    assert list(files) == ["pyproject.toml", f"{CODE}.py", f"{CODE}.toml", f"test_{CODE}.py"]
    assert sum(name.endswith(".py") and not name.startswith("test_") for name in files) == 1
    published = tomllib.loads(files["pyproject.toml"])["project"]["entry-points"]
    assert {value.partition(":")[0] for points in published.values() for value in points.values()} == {CODE}
    assert not [path for path in (ROOT / "src").rglob("*.py") if CODE in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(options, id=kind, marks=SEVERAL if kind.startswith("several classes") else ONE)
        for kind, options in KINDS.items()
    ],
)
def test_it_is_run_asked_exported_and_reported(command, installed, options):
    changes = [f"data.{key}={json.dumps(value)}" for key, value in options.items()]
    done = command("run", installed / f"{CODE}.toml", *changes, "runtime.workers=0", "--out", "run", "--json")
    assert done.code == 0, done.err
    summary = done.json()
    score, constant = summary["test_at_best_validation"], summary["baselines"]["roads_constant"]
    assert score < constant / 4 if summary["better"] == "lower" else score > constant + 0.2
    towns = importlib.import_module(CODE).Towns(**options).load(summary["seed"])

    asked = pd.concat([asked_of(town, town.rows("test")) for town in towns])
    asked.to_csv("asked.csv", index=False)
    assert command("predict", "run", "--examples", "asked.csv", "--out", "answers.csv").code == 0
    answers = pd.read_csv("answers.csv")
    label = np.concatenate([town.label[town.rows("test")] for town in towns])
    label = label if label.ndim > 1 else label[:, None]
    found = scores_of(answers, label, towns[0])
    named = [summary["measures"]["test"][f"{summary['metric']}_{name}"] for name in towns[0].label_names]
    assert found == pytest.approx(named or [score], rel=1e-4)
    assert np.mean(found) == pytest.approx(score, rel=1e-4)

    assert command("export", "run", "--out", "exported").code == 0
    town, test = towns[0], towns[0].rows("test")
    inputs = importlib.import_module(CODE).Roads().inputs(town)
    outputs = exported(Path("exported"))(inputs, torch.from_numpy(town.ends[:, test])).detach().numpy()
    for told, columns in zip(
        told_by(answers, town), np.split(outputs, max(1, len(town.label_names)), axis=1), strict=True
    ):
        mine = told.to_numpy()[: len(test)]
        if town.classes:
            assert [town.classes[place] for place in columns.argmax(axis=1)] == mine.tolist()
        else:  # outputs are in the unit that clients agreed on
            assert np.corrcoef(columns[:, 0], mine.astype(float))[0, 1] == pytest.approx(1.0)

    assert command("report", "run", "--out", "report.html").code == 0
    assert "roads_constant" in Path("report.html").read_text(encoding="utf-8")


def test_of_rare_classes_average_precision_is_judged_and_a_threshold_answers(command, installed, caplog):
    """Run two labels of roads, of each of which one class is rare, and ask: rare ones are answered, too."""
    changes = ["data.kind=classes", "data.high=60", "loss.class_weights=balanced", "runtime.workers=0"]
    done = command("run", installed / f"{CODE}.toml", *changes, "--out", "run", "--json")
    assert done.code == 0, done.err
    summary = done.json()
    measures = summary["measures"]["test"]
    assert summary["metric"] == "average_precision"
    each = [measures[f"average_precision_{name}"] for name in ("wear", "noise")]
    assert measures["average_precision"] == summary["test_at_best_validation"] == pytest.approx(np.mean(each))
    assert 0.5 < measures["average_precision"] < measures["auc"]
    assert summary["baselines"]["roads_constant"] < 0.3
    assert summary["bytes"]["statistics"] > 0

    towns = importlib.import_module(CODE).Towns(kind="classes", high=60.0).load(summary["seed"])
    pd.concat([asked_of(town, town.rows("test")) for town in towns]).to_csv("asked.csv", index=False)
    asked = ("predict", "run", "--examples", "asked.csv", "--out")
    assert command(*asked, "answers.csv", "--probabilities").code == 0
    answers = pd.read_csv("answers.csv")
    for label in ("wear", "noise"):
        decision = summary["thresholds"][label]
        assert decision["class"] == "high"
        found = answers[f"probability_high_{label}"] >= decision["threshold"]
        assert 0 < found.sum() < len(found) / 2
        assert (answers[f"class_{label}"] == np.where(found, "high", "low")).all()
    assert command(*asked, "all.csv", "--threshold", "0").code == 0
    assert (pd.read_csv("all.csv")[["class_wear", "class_noise"]] == "high").all(axis=None)
    assert command("export", "run", "--out", "exported").code == 0
    assert "The class 'high' of 'noise' is answered" in Path("exported/README.md").read_text(encoding="utf-8")
    assert command("report", "run", "--out", "report.html").code == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["data.kind=classes", "evaluation.metric=rmse"], "must be one of accuracy, .* whose labels are classes"),
        (["evaluation.metric=auc"], "must be one of rmse, mae, r2 for these data, whose labels are numbers; got 'auc'"),
        (["loss.class_weights=balanced"], "loss.class_weights must be '' where labels are numbers; got 'balanced'"),
        (["loss.focal=2"], "loss.focal must be 0 where labels are numbers"),
        (["data.kind=classes", "loss.class_weights=balance"], "Did you mean 'balanced'"),
        (["evaluation.metric=acuracy"], "Did you mean 'accuracy'"),
    ],
)
def test_what_does_not_fit_the_labels_is_one_line(command, installed, changes, said):
    done = command("run", installed / f"{CODE}.toml", *changes, "runtime.workers=0", "--out", "run")
    assert done.code == 2
    assert re.search(said, " ".join(done.err.split()))


@pytest.mark.parametrize("metric", ["mae", "r2"])
def test_several_numbers_are_judged_by_what_is_asked_for(command, installed, metric):
    changes = [f"evaluation.metric={metric}", "runtime.workers=0", "--out", "run", "--json"]
    summary = command("run", installed / f"{CODE}.toml", *changes).json()
    assert summary["metric"] == metric
    assert summary["test_at_best_validation"] == summary["measures"]["test"][metric]


def asked_of(town, examples) -> pd.DataFrame:
    """The question whose answer is the label of some examples."""
    names = ("source", "target") if len(town.ends) > 1 else ("node",)
    return pd.DataFrame({name: town.ids[end[examples]] for name, end in zip(names, town.ends, strict=True)})


def told_by(answers: pd.DataFrame, town) -> list[pd.Series]:
    """What is answered, for each label."""
    column = "class" if town.classes else "prediction"
    return [answers[f"{column}_{name}"] for name in town.label_names] or [answers[column]]


def scores_of(answers: pd.DataFrame, label: np.ndarray, town) -> list[float]:
    """RMSE or accuracy of the answers for each label, over the examples that have it."""
    found = []
    for told, column in zip(told_by(answers, town), label.T, strict=True):
        known = column >= 0 if town.classes else np.isfinite(column)
        if town.classes:
            right = told[known].to_numpy() == np.array(town.classes)[column[known]]
            found.append(float(right.mean()))
        else:
            found.append(float(np.sqrt(np.square(told[known].to_numpy() - column[known]).mean())))
    return found


def test_the_guides_own_tests_pass(installed):
    """Hold the task and its data to all laws, as the guide's file of tests does."""
    checked = importlib.import_module(f"test_{CODE}")
    for of in ("roads", "crossings"):
        for kind in ("numbers", "classes"):
            checked.test_every_law(of, kind, of == "roads")
    sys.modules.pop(f"test_{CODE}")
