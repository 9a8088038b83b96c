"""Figures of a study of costs."""

import dataclasses

import pytest

from fedgraft.errors import InputError
from fedgraft.reports.figures import figure_style
from fedgraft.reports.studies import cost_figures
from fedgraft.reports.studies.cells import PanelRuns
from fedgraft.reports.studies.layouts import write_page
from fedgraft.reports.studies.study import Cell, Split
from helpers.small_studies import OURS, PLAIN, STUDY

RESULTS = {
    **{Cell(Split("toy", "iid", 4, seed), "sage", "plain"): run for seed, run in enumerate(PLAIN, 1)},
    Cell(Split("toy", "iid", 4, 1), "sage", "ours"): {**OURS[0], "baselines": {"mlp": {"test": 0.8}}},
}


def test_lines_are_means_over_the_seeds_against_both_costs():
    (_, split, panel), *_ = cost_figures.settings(STUDY)
    known = PanelRuns(STUDY, panel, RESULTS, 2)
    assert {method: len(found) for (_, method), found in known.only.items()} == {"ours": 1, "plain": 2}
    assert known.baseline(split, "mlp") == [80.0]
    figure = cost_figures.figure(known, split, {"mlp": [80.0]})
    lines = {(trace.name, trace.xaxis): trace for trace in figure.data}
    assert list(lines["Plain", "x"].x) == [100, 200]  # megabytes; what was there before the first round has no place
    assert list(lines["Plain", "x2"].x) == [10, 20]
    assert list(lines["Plain", "x"].y) == pytest.approx([81, 87])
    assert list(lines["Ours (seeds: 1)", "x2"].y) == pytest.approx([69, 87])
    assert figure.layout.yaxis.range == pytest.approx((82, 87.5))
    assert [note.text for note in figure.layout.annotations] == [], "a baseline below the range is not shown"


def test_a_line_shows_what_a_run_that_ended_there_would_have():
    rounds = [(0, 0.5, 0.4), (1, 0.7, 0.66), (2, 0.6, 0.9), (3, None, None), (4, 0.8, 0.75)]
    run = {"curve": [[number, 10 * number, validation, test, number] for number, validation, test in rounds]}
    shown = cost_figures.kept(run)["curve"]
    assert [point[3] for point in shown] == [0.4, 0.66, 0.66, 0.66, 0.75]
    assert [[*point[:3], point[4]] for point in shown] == [[*point[:3], point[4]] for point in run["curve"]]


def test_settings_with_two_methods_are_drawn_and_shown_once(tmp_path, monkeypatch):
    monkeypatch.setattr(figure_style.shutil, "which", lambda name: None)
    (said,) = cost_figures.draw_all(STUDY, RESULTS, 2, tmp_path / "pictures")
    assert said.startswith("No browser")
    assert "plotly" in (tmp_path / "pictures" / "toy-iid-4.html").read_text()
    (tmp_path / "pictures" / "toy-iid-4.png").write_bytes(b"")
    twice = dataclasses.replace(STUDY, panels=STUDY.panels * 2)
    write_page(twice, RESULTS, 2, tmp_path / "page.md", tmp_path / "pictures")
    text = (tmp_path / "page.md").read_text()
    assert text.count("### toy-iid-4\n") == 2
    assert text.count("![Accuracy against costs: toy-iid-4](pictures/toy-iid-4.png)") == 1
    alone = {cell: run for cell, run in RESULTS.items() if cell.method == "ours"}
    assert cost_figures.draw_all(STUDY, alone, 2, tmp_path / "none") == []


def test_a_baseline_within_reach_is_a_line_with_its_score():
    (_, split, panel), *_ = cost_figures.settings(STUDY)
    figure = cost_figures.figure(PanelRuns(STUDY, panel, RESULTS, 2), split, {"mlp": [86.0, 86.5]})
    assert [note.text for note in figure.layout.annotations] == ["mlp 86.25"]


def test_labels_of_a_study_are_text_not_markup():
    (_, split, panel), *_ = cost_figures.settings(STUDY)
    methods = {name: {**said, "label": "<a>" + said["label"]} for name, said in STUDY.methods.items()}
    evil = dataclasses.replace(STUDY, methods=methods)
    figure = cost_figures.figure(PanelRuns(evil, panel, RESULTS, 2), "<i>" + split, {"<b>": [86.0]})
    assert {trace.name for trace in figure.data} == {"&lt;a&gt;Plain", "&lt;a&gt;Ours (seeds: 1)"}
    assert "&lt;i&gt;" in figure.layout.title.text
    assert figure.layout.annotations[0].text == "&lt;b&gt; 86"


def test_a_browser_that_fails_costs_the_picture_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(figure_style.shutil, "which", lambda name: "/bin/false")
    (said,) = cost_figures.draw_all(STUDY, RESULTS, 2, tmp_path)
    assert said.startswith("/bin/false did not draw toy-iid-4.png (CalledProcessError): see ")
    assert (tmp_path / "toy-iid-4.html").is_file()


def test_a_study_of_errors_has_no_such_figures():
    with pytest.raises(InputError, match="study toy has a page of errors"):
        cost_figures.check(dataclasses.replace(STUDY, layout="errors"))


def test_a_page_of_pairs_is_drawn_against_rounds_and_bytes():
    (_, split, panel), *_ = cost_figures.settings(STUDY)
    paired = dataclasses.replace(STUDY, layout="paired")
    figure = cost_figures.figure(PanelRuns(paired, panel, RESULTS, 2), split, {})
    lines = {(trace.name, trace.xaxis): trace for trace in figure.data}
    assert list(lines["Plain", "x"].x) == [2, 4]
    assert list(lines["Plain", "x2"].x) == [100, 200]
