"""Tables of what methods spend until they reach a target: by hand."""

import pytest

from fedgraft.reports.studies.page import tables
from fedgraft.reports.studies.study import Cell, Split
from fedgraft.reports.studies.target_tables import spent, target
from helpers.small_studies import OURS, PLAIN, STUDY, run


def test_a_target_and_what_it_costs_are_read_off_mean_curves():
    goal = target(PLAIN, 0.003)
    assert goal == pytest.approx(0.88 - 0.003), "not 0.90, which one seed alone has"
    found = spent(PLAIN, goal)
    assert (found.round, found.bytes, found.flops) == (4, 200e6, 20e9)
    assert spent(OURS, goal).bytes == 10e6
    assert spent(OURS, 0.89) is None


def page(results):
    cell = {name: [Cell(Split("toy", "iid", 4, seed), "sage", name) for seed in (1, 2)] for name in STUDY.methods}
    found = {}
    for name, runs in results.items():
        found.update(dict(zip(cell[name], runs, strict=False)))
    return tables(STUDY, found, 2)


def test_a_table_by_hand():
    text = page({"ours": OURS, "plain": PLAIN})
    assert "Target: 87.70 on validation." in text
    assert "| Ours | 82.00 | 81.5 |  |  | 10 | 2 | 4 | 10 | 95.00 % | 2 | 90.00 % | 1 |" in text
    assert "| Plain | 80.00 ± 0.00 |  |  |  | 200 | 20 | 4 | 200 | 0.00 % | 20 | 0.00 % | 2 |" in text
    assert "Careful" not in text


def test_rounds_that_lack_clients_have_no_part_and_failures_are_told():
    lacking = {**run((0, 0, 0.5, 0), (2, 50, 0.95, 5), (4, 200, 0.90, 20)), "failures": {"scoring": 3}}
    lacking["curve"][1][2:4] = [None, None]
    assert target([lacking], 0.0) == 0.90
    text = page({"ours": OURS, "plain": [lacking]})
    assert "Target: 89.70 on validation." in text
    assert "Plain, sage, toy-iid-4, seed 1: 3 in scoring" in text
    assert "Clients failed" not in page({"ours": OURS, "plain": PLAIN})


def test_a_run_without_any_score_is_shown_as_one():
    never = {**run((0, 0, 0.5, 0), (2, 50, 0.9, 5)), "test_at_best_validation": None, "failures": {"scoring": 9}}
    never["curve"] = [[*point[:2], None, None, point[4]] for point in never["curve"]]
    text = page({"ours": OURS, "plain": [never]})
    assert "Target" not in text
    assert "| Plain | no score |" in text


def test_another_reference_sets_a_target_of_its_own():
    careful = [run((0, 0, 0.5, 0), (2, 20, 0.70, 4), (4, 12345, 0.72, 8))]
    text = page({"ours": OURS, "plain": PLAIN, "careful": careful})
    assert "To the best of Careful, less 0.3 points (71.70): 12,345 MB and 8 GFLOP;" in text
    assert "GFLOP; Ours 10 and 2, 99.92 % and 75.00 % fewer." in text
    better = [run((0, 0, 0.5, 0), (2, 20, 0.99, 4))]
    assert "(98.70): Ours never." in page({"ours": OURS, "plain": PLAIN, "careful": better})


def test_without_a_reference_nothing_is_claimed_and_without_runs_nothing_is_told():
    assert "| Ours | 82.00 | 81.5 |  |  | 10 | 2 |  |  |  |  |  | 1 |" in page({"ours": OURS})
    assert "Not run yet." in page({})
