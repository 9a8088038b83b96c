"""Runs that differ in nothing but the seed, held together."""

import io
import json
from pathlib import Path
from statistics import mean, stdev

import pytest
from rich.console import Console

from fedgraft.errors import InputError
from fedgraft.reports.stored.comparison import interval
from fedgraft.reports.stored.seed_groups import group_rows, grouped, open_named, render
from helpers.fake_runs import write_run

ENDS = {"a": (0.95, 0.96, 0.98), "b": (0.90, 0.93, 0.92)}


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Two groups of three seeds."""
    for cohort, (name, ends) in enumerate(ENDS.items(), 2):
        for seed, end in enumerate(ends, 1):
            write_run(tmp_path / name / f"seed-{seed}", end=end, seed=seed, cohort=cohort)
    return [tmp_path / name for name in ENDS]


def test_means_spreads_and_paired_differences(folders: list[Path]) -> None:
    runs = open_named(folders)
    assert [run.label for run in runs] == [f"{name}/seed-{seed}" for name in "ab" for seed in (1, 2, 3)]
    first, second = json.loads(json.dumps(group_rows(grouped(runs)), allow_nan=False))
    assert (first["group"], first["seeds"], second["group"]) == ("a", [1, 2, 3], "b")
    scores = [
        [json.loads((run.path / "summary.json").read_text())["test_at_best_validation"] for run in runs][k : k + 3]
        for k in (0, 3)
    ]
    assert second["test_at_best_validation"] == {"mean": mean(scores[1]), "spread": stdev(scores[1])}
    expected = interval([b - a for a, b in zip(*scores, strict=True)])
    assert second["difference"] == {"to": "a", "seeds": [1, 2, 3], "mean": expected.middle, "half_width": expected.half}
    assert "difference" not in first
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as shown:
        console.print(render([first, second]))
    assert f"{mean(scores[0]):.4f} ± {stdev(scores[0]):.4f}" in shown.get()
    assert f"{expected.middle:+.4f} ± {expected.half:.4f}" in shown.get()
    assert "…" not in shown.get()


def test_runs_that_differ_in_more_are_no_group(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, seed=seed, cohort=seed) for name, seed in (("a", 1), ("b", 2))]
    assert group_rows(grouped(open_named(runs))) == []


def test_a_seed_counts_once(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, seed=seed) for name, seed in (("a", 1), ("copy", 1), ("b", 2))]
    assert [[run.label for run in group.runs] for group in grouped(open_named(runs))] == [["a", "b"], ["copy"]]


def test_labels_name_folders_in_their_order(folders: list[Path], tmp_path: Path) -> None:
    single = write_run(tmp_path / "c", cohort=4)
    runs = open_named([*folders, single], ["FedACS", "ours, 2 %", "c"])
    assert [run.label for run in runs][2:5] == ["FedACS/seed-3", "ours, 2 %/seed-1", "ours, 2 %/seed-2"]
    assert [group.name for group in grouped(runs)] == ["FedACS", "ours, 2 %", "c"]
    assert [group.name for group in grouped(open_named(folders[:1]))] == ["a"]


@pytest.mark.parametrize(
    ("labels", "error"),
    [
        (["x"], r"Give each of the 2 folders a label \(--label\), in their order, or none; got 1: 'x'\."),
        (["x", "x"], r"Each folder needs a label \(--label\) of its own; 'x' is given twice\."),
        (["x", " "], r"A label \(--label\) must not be empty; got ' ' for .*b\."),
    ],
)
def test_labels_that_name_nothing(folders: list[Path], labels: list[str], error: str) -> None:
    with pytest.raises(InputError, match=error):
        open_named(folders, labels)
