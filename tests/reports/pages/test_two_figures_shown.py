"""Sending all data once, and each client alone: shown where a run knows them, and missed nowhere where it does not."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedgraft.errors import InputError
from fedgraft.reports.pages.html_report import write_report
from fedgraft.reports.stored.comparison import render
from fedgraft.reports.stored.stored_runs import StoredRun, joined_baselines, joined_raw_data
from fedgraft.reports.studies.cells import raw_data_line
from helpers.compared_runs import compare
from helpers.fake_runs import write_run


def told(folder: Path, **changes: Any) -> Path:
    path = write_run(folder, baselines={}) / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return folder


def test_they_are_in_table_and_report(tmp_path: Path) -> None:
    alone = {"validation": 1.2, "test": 1.25}
    folders = [told(tmp_path / str(i), raw_data_bytes=3_000_000 + i, client_alone=alone) for i in range(2)]
    rows = compare(folders)
    assert (rows[0]["raw_data_bytes"], rows[0]["client_alone"]) == (3_000_000, alone)
    assert joined_baselines(rows) == [("each client alone", 1.25)]
    assert joined_raw_data(rows) == [("all data, sent once (mean of 2)", 3_000_000.5)]
    console = Console(width=120, record=True)
    console.print(render(rows))
    assert "3.00 MB" in console.export_text()
    page = write_report(folders, tmp_path / "r.html").read_text()
    assert "all data, sent once" in page
    assert "each client alone" in page


def test_earlier_runs_and_unknown_figures_show_nothing(tmp_path: Path) -> None:
    for folder in (told(tmp_path / "old"), told(tmp_path / "null", raw_data_bytes=None, client_alone=None)):
        (row,) = compare([folder])
        assert row["raw_data_bytes"] is row["client_alone"] is None
        assert joined_baselines([row]) == joined_raw_data([row]) == []


def test_where_local_only_is_a_baseline_it_is_shown_once(tmp_path: Path) -> None:
    alone = {"validation": 1.2, "test": 1.25}
    run = StoredRun(told(tmp_path / "a", baselines={"local_only": 1.25}, client_alone=alone))
    assert joined_baselines([run.summary]) == [("local_only", 1.25)]


@pytest.mark.parametrize(
    "changes",
    [{"raw_data_bytes": -1}, {"raw_data_bytes": 1.5}, {"client_alone": 0.5}, {"client_alone": {"test": 1.0}}],
)
def test_damaged_ones_are_named(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(changes))} is"):
        StoredRun(told(tmp_path / "a", **changes))


def test_a_study_says_it_where_its_cells_know() -> None:
    assert raw_data_line([{}, {"raw_data_bytes": None}]) == ""
    known = [{"raw_data_bytes": 1_000_000}, {"raw_data_bytes": 2_000_000}]
    assert raw_data_line([{}, *known]) == "Sending all data once would take 1.5 MB.\n"
