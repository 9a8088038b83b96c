"""Tables of seconds to scores, by hand."""

import dataclasses
import math

from fedgraft.reports.studies import cost_figures
from fedgraft.reports.studies.cells import PanelRuns, spent_to
from fedgraft.reports.studies.layouts import tables
from fedgraft.reports.studies.study import Cell, Split, Study

STUDY = Study(
    name="toy",
    title="Toy",
    recipe="reputation_ucb",
    reference="plain",
    layout="time",
    targets=(0.8, 0.9),
    common={},
    methods={"ours": {"label": "Ours"}, "plain": {"label": "Plain"}},
    panels=(
        {
            "title": "One",
            "data": ["toy"],
            "partitions": ["linear"],
            "clients": [4],
            "runs": [["", "plain"], ["", "ours"]],
            "baselines": ["ease"],
            "paper": {"toy-linear-4": {"ours": {"seconds": "570.3", "scores": ".84"}}},
        },
    ),
)


def run(seconds, *scores):
    """A run whose rounds last so many simulated seconds each."""
    curve = [[number, number * 1e6, score, score - 0.01, None, number * seconds] for number, score in enumerate(scores)]
    test = {"auc": scores[-1] - 0.01, "ndcg_at_50": 0.3}
    return {
        **{"metric": "auc", "better": "higher", "curve": curve, "measures": {"test": test}, "bytes": {"total": 2e6}},
        **{"simulated_seconds": curve[-1][-1], "test_at_best_validation": test["auc"], "failures": {}},
    }


def cell(method, seed):
    return Cell(Split("toy", "linear", 4, seed), "", method)


EASE = {"ease": {"validation": 0.9, "test": 0.91, "ndcg_at_50": 0.35}}
RESULTS = {
    cell("plain", 1): {**run(4.0, 0.5, 0.7, 0.85, 0.92), "baselines": EASE},
    cell("plain", 2): {**run(4.0, 0.5, 0.81, 0.85, 0.92), "baselines": EASE},
    cell("ours", 1): {**run(1.0, 0.5, 0.85, 0.91, 0.93), "baselines": EASE},
    cell("ours", 2): {**run(1.0, 0.5, 0.85, 0.88, 0.89), "baselines": EASE},
}


def test_a_cell_without_a_model_is_named_without_one():
    assert cell("ours", 1).key == "toy-linear-4-ours-seed1"
    assert cell("ours", 1).model_changes == {}


def seconds(run, score):
    return spent_to(run, score, "simulated_seconds")


def test_seconds_to_a_score():
    assert seconds(RESULTS[cell("plain", 1)], 0.8) == 8.0
    assert seconds(RESULTS[cell("ours", 1)], 0.8) == 1.0
    assert math.isnan(seconds(RESULTS[cell("ours", 2)], 0.9))


def test_a_table_is_paired_by_seed():
    written = tables(STUDY, RESULTS, 2)
    (ours,) = (line for line in written.splitlines() if line.startswith("| Ours | 1.00 ± 0.00"))
    cells = [part.strip() for part in ours.strip("|").split("|")]
    # 1 of 8 and 1 of 4 seconds are 87.5 % and 75 % fewer
    assert cells[3] == "+81.2 ± 79.4*"
    assert cells[2] == "2.00 (1 never)"
    assert cells[4] == "not on every seed"
    assert cells[5:] == ["3.0 ± 0.0", "2", "570.3", "2"]
    assert "| ease | 0.9100 ± 0.0000 | 0.3500 ± 0.0000 | 2 |" in written
    assert "auc above Plain, points" in written


def test_a_panel_shows_its_own_baselines_and_no_empty_column():
    panel = {**STUDY.panels[0], "baselines": [], "paper": {}}
    written = tables(dataclasses.replace(STUDY, panels=(panel,)), RESULTS, 2)
    assert "ease" not in written
    assert "paper" not in written
    assert "| Ours | 1.00 ± 0.00" in written


def test_what_has_not_run_is_said():
    assert "Not run yet." in tables(STUDY, {}, 2)


def test_rounds_and_seconds_to_a_target_of_each_seed_s_own():
    """Plain's best is 0.92 twice: 0.87 is reached after 12 s; ours has it after 2 s."""
    written = tables(dataclasses.replace(STUDY, target={"below": 5.0}), RESULTS, 2)
    assert "| Plain | 3.0 ± 0.0, 2 of 2 seeds | 12.0 ± 0.0 |  | 3.00 ± 0.00 |  |" in written
    assert "| Ours | 2.0 ± 0.0, 2 of 2 seeds | 2.00 ± 0.00 | +83.3 ± 0.0* | 2.00 ± 0.00 | +33.3 ± 0.0* |" in written


def test_seeds_that_options_were_chosen_on_have_no_part_in_differences():
    written = tables(dataclasses.replace(STUDY, tuned={"seeds": [1]}), RESULTS, 2)
    assert "Options were chosen on seed 1. Fewer than 2 fresh seeds are left, so nothing is tested." in written
    assert "| Ours | 1.00 ± 0.00 | 2.00 (1 never) | +81.2 | not on every seed |" in written


def test_a_picture_has_seconds_and_bytes(tmp_path):
    (_, split, panel), *_ = cost_figures.settings(STUDY)
    made = cost_figures.figure(PanelRuns(STUDY, panel, RESULTS, 2), split, {"ease": [91.0, 91.0]})
    assert [axis.title.text for axis in (made.layout.xaxis, made.layout.xaxis2)] == [
        "simulated seconds",
        "MB on the wire, both directions",
    ]
    assert list(made.data[0].x) == [4.0, 8.0, 12.0]
    cost_figures.check(dataclasses.replace(STUDY, layout="time"))
