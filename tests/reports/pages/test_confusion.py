"""What examples are taken for: measures by hand, on a page, and of runs whose data are gone."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.reports.pages.html_report import write_report
from fedgraft.reports.pages.page_classes import MOST_CLASSES, ClassPart, Confusion, added, class_parts, confusion_of
from fedgraft.reports.stored.seed_groups import grouped, open_named
from helpers.fake_runs import write_run
from helpers.node_runs import PLAIN, SMALL

CLASSES = ("cat", "dog", "cow")
COUNTS = np.array([[3, 1, 0], [2, 4, 0], [0, 0, 0]])
"""Nobody is a cow, and nothing is taken for one."""


def told(folder: Path, classes: int = 2, examples: int = 10, **more: object) -> Path:
    """A run that says what its clients have, and whose data nobody can load."""
    folder = write_run(folder, metric="accuracy", better="higher", clients=2)
    row = {"name": "a", "train": examples, "validation": 0, "test": 0, "classes": [0] * classes}
    path = folder / "summary.json"
    data = {"classes": [f"class {k}" for k in range(classes)], "clients": [row]}
    path.write_text(json.dumps({**json.loads(path.read_text()), "data": data, **more}))
    return folder


def test_precision_recall_and_f1_by_hand() -> None:
    found = Confusion(CLASSES, COUNTS)
    assert (found.examples, found.accuracy) == (10, 0.7)
    cat, dog, cow = found.scores
    assert (cat.count, cat.precision, cat.recall) == (4, 3 / 5, 3 / 4)
    assert cat.f1 == pytest.approx(2 * (3 / 5) * (3 / 4) / (3 / 5 + 3 / 4))
    assert (dog.precision, dog.recall) == (4 / 5, 4 / 6)
    assert (cow.count, *map(math.isnan, (cow.precision, cow.recall, cow.f1))) == (0, True, True, True)


def test_counts_of_clients_with_other_classes_add_up_by_name() -> None:
    one, other = np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]])
    found = added([Confusion(("a", "b"), one), Confusion(("b", "c"), other)])
    assert found.classes == ("a", "b", "c")
    np.testing.assert_array_equal(found.counts, [[1, 2, 0], [3, 9, 6], [0, 7, 8]])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> fedgraft.Run:
    out = tmp_path_factory.mktemp("runs") / "nodes"
    changes = {**SMALL, **PLAIN, "exchange.states": False}
    return fedgraft.run("fedais", out=out, progress=False, overrides=changes)


def test_a_runs_answers_are_those_that_were_scored(run: fedgraft.Run, tmp_path: Path) -> None:
    found = confusion_of(RunFolder.open(run.folder))
    assert found is not None
    assert found.classes == tuple(run.summary["data"]["classes"])
    assert found.examples == sum(row["test"] for row in run.summary["data"]["clients"])
    assert found.accuracy == pytest.approx(run.summary["test_at_best_validation"])
    f1 = [score.f1 for score in found.scores if not math.isnan(score.f1)]
    assert np.mean(f1) == pytest.approx(run.summary["measures"]["test"]["macro_f1"])
    page = run.report(tmp_path / "r.html").read_text()
    assert f"test examples by the model that was best on validation: accuracy {found.accuracy:.4f}." in page
    assert "taken for" not in run.report(tmp_path / "r.html", classes=False).read_text()


def test_data_that_are_gone_are_one_line(tmp_path: Path) -> None:
    folder = told(tmp_path / "<b>")
    page = write_report([folder], tmp_path / "r.html").read_text()
    assert "Of &lt;b&gt; they are not shown: its data are not here as the run had them; --classes says why." in page
    with pytest.raises(InputError, match=r"experiment\.toml"):
        write_report([folder], tmp_path / "s.html", classes=True)
    assert not (tmp_path / "s.html").exists()


def test_what_takes_long_is_left_to_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [told(tmp_path / "few"), told(tmp_path / "many", examples=70_000), told(tmp_path / "unknown", data=None)]
    opened: list[str] = []

    def found(store: RunFolder, *where: object) -> Confusion:
        opened.append(store.folder.name)
        return Confusion(CLASSES, COUNTS)

    monkeypatch.setattr("fedgraft.reports.pages.page_classes.confusion_of", found)
    groups = [group for run in runs for group in grouped(open_named([run]))]
    parts = class_parts(groups, None)
    assert [(part.name, part.missing) for part in parts] == [
        ("few", ""),
        ("many", "it may take more than a minute; --classes shows them"),
        ("unknown", "it may take more than a minute; --classes shows them"),
    ]
    assert opened == ["few"]
    assert (len(class_parts(groups, True)), class_parts(groups, False)) == (3, [])
    assert "The run itself was scored" in parts[0].text


def test_many_classes_are_folded_to_the_most_confused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = MOST_CLASSES + 5
    counts = np.diag(np.arange(1, size + 1))
    counts[5:, 5] += 2  # all but the first five are taken for the sixth
    names = tuple(f"class {k}" for k in range(size))
    monkeypatch.setattr("fedgraft.reports.pages.page_classes.confusion_of", lambda *folder: Confusion(names, counts))
    (part,) = class_parts(grouped(open_named([told(tmp_path / "a")])), True)
    assert isinstance(part, ClassPart)
    assert [score.name for score in part.scores] == [f"class {k}" for k in range(5, size)]
    assert [row.name for row in part.matrix] == [*(f"class {k}" for k in range(5, size)), "others"]
    assert sum(count for row in part.matrix for count, _ in row.cells) == counts.sum()
    assert part.matrix[-1].cells[-1] == (1 + 2 + 3 + 4 + 5, 0.0)
    assert "Shown are the 20 of 25 classes that are confused most." in part.text
