"""Scores of clients' models after local steps: in closing lines, tables, figures and studies, where runs have them."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

import fedgraft
from fedgraft.errors import InputError
from fedgraft.interface.commands.ends import result_lines
from fedgraft.reports.figures.curve_figures import score
from fedgraft.reports.pages.page_tables import page_tables
from fedgraft.reports.stored.comparison import render
from fedgraft.reports.stored.seed_groups import group_rows, grouped
from fedgraft.reports.stored.stored_runs import AFTER_STEPS, StoredRun
from fedgraft.reports.studies.running import _compact
from helpers.compared_runs import compare
from helpers.fake_runs import write_run


def with_steps(folder: Path, **changed: object) -> Path:
    """A run whose clients' models are 0.01 better on test after local steps."""
    summary = json.loads((folder / "summary.json").read_text())
    lines = {split: [point[place] - 0.01 for point in summary["curve"]] for split, place in AT.items()}
    best = len(summary["curve"]) - 1
    told = {"round": best, "validation": lines["validation"][-1], "test": lines["test"][-1], "measures": {}}
    told |= {"test_per_client": summary["test_per_client"], "curve": lines}
    (folder / "summary.json").write_text(json.dumps({**summary, "after_local_steps": {**told, **changed}}))
    return folder


AT = {"validation": 3, "test": 4}
"""{split: where a point of a curve has its score}."""


@pytest.fixture
def tried(tmp_path: Path) -> Path:
    return with_steps(write_run(tmp_path / "tried"))


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return write_run(tmp_path / "plain", end=1.1)


def text_of(table: object, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_the_closing_lines_name_the_round(tried: Path) -> None:
    summary = json.loads((tried / "summary.json").read_text())
    told = summary["after_local_steps"]
    line = f"  after local steps, at their best validation (round {told['round']}): "
    line += f"validation {told['validation']:.4f}, test {told['test']:.4f}"
    assert line in result_lines(summary, tried)
    none = {**summary, "after_local_steps": {**told, "round": None, "validation": None, "test": None}}
    assert any("no score, as clients' steps have failed" in line for line in result_lines(none, tried))


def test_a_comparison_has_a_column_where_any_run_has_it(tried: Path, plain: Path) -> None:
    rows = compare([tried, plain])
    score = StoredRun(tried).summary["after_local_steps"]["test"]
    assert [row["test_after_local_steps"] for row in rows] == [score, None]
    text = text_of(render(rows))
    assert "local steps" in text
    assert f"{score:.4f}*" in text
    assert "…" not in text
    assert "local steps" not in text_of(render(compare([plain])))
    assert fedgraft.compare([tried, plain])["test_after_local_steps"].iloc[0] == score


def test_groups_of_seeds_have_means(tmp_path: Path) -> None:
    runs = [with_steps(write_run(tmp_path / f"seed-{seed}", seed=seed)) for seed in (1, 2)]
    groups = grouped([StoredRun(run) for run in runs])
    (row,) = group_rows(groups)
    assert row["test_after_local_steps"]["mean"] == pytest.approx(row["test"]["mean"] - 0.01, abs=0.01)
    tables = page_tables(groups, 1.0)
    assert tables.measures["test after local steps"] == [
        f"{row['test_after_local_steps']['mean']:.4f} ± {row['test_after_local_steps']['spread']:.4f}"
    ]


def test_the_figure_has_lines_with_dots_and_the_buttons_know_them(tried: Path, plain: Path) -> None:
    figure = score([StoredRun(tried), StoredRun(plain)])
    dashes = [trace.line.dash for trace in figure.data if trace.x is not None and len(trace.x) > 1]
    assert dashes == ["solid", "longdashdot", "dash", "dashdot", "solid", "dash"]
    assert "after local steps with dots" in figure.layout.meta["note"]
    _, validation, _ = figure.layout.updatemenus[0].buttons
    assert validation.args[0]["visible"] == [True, True, False, False, True, False]
    assert set(AFTER_STEPS.values()) <= set(StoredRun(tried).curve)
    assert "dots" not in score([StoredRun(plain)]).layout.meta["note"]


def test_a_study_keeps_what_its_table_needs(tried: Path) -> None:
    kept = _compact(json.loads((tried / "summary.json").read_text()))
    assert kept["after_local_steps"].keys() == {"round", "validation", "test", "test_per_client"}


@pytest.mark.parametrize("changed", [{"test": "high"}, {"round": -1}, {"curve": {"validation": [], "test": []}}])
def test_what_no_run_writes_is_damage(tmp_path: Path, changed: dict[str, object]) -> None:
    folder = with_steps(write_run(tmp_path / "run"), **changed)
    with pytest.raises(InputError, match=r"is damaged: .*after_local_steps"):
        StoredRun(folder)
