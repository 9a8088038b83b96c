"""Tables of what selectors reach and take: by hand."""

from dataclasses import replace

from fedgraft.reports.studies.layouts import tables
from fedgraft.reports.studies.study import Cell, Split
from helpers.small_studies import STUDY

SIDE_BY_SIDE = replace(STUDY, layout="selectors")


def run(test, better="higher", choosing=0.2):
    return {
        "metric": "accuracy" if better == "higher" else "rmse",
        "better": better,
        "test_at_best_validation": test,
        "rounds": 10,
        "selections": 40,
        "bytes": {"total": 3e6},
        "simulated_seconds": 12.0,
        "selection_seconds": choosing,
    }


def page(better, ours, plain):
    cells = {}
    for method, scores in (("ours", ours), ("plain", plain)):
        for seed, score in enumerate(scores, 1):
            cells[Cell(Split("toy", "iid", 4, seed), "sage", method)] = run(score, better)
    return tables(SIDE_BY_SIDE, cells, 3)


def test_a_table_by_hand():
    """Four clients a round, 20 ms of choosing; every seed is one point better: an interval without width, p = 0."""
    text = page("higher", [0.81, 0.82, 0.83], [0.80, 0.81, 0.82])
    assert "| selector | test accuracy, % | better than Plain |" in text
    assert "| Ours | 82.00 ± 1.00 | +1.00 ± 0.00* | 4 | 3 | 12 | 20 | 3 |" in text
    assert "| Plain | 81.00 ± 1.00 |  | 4 | 3 | 12 | 20 | 3 |" in text


def test_of_an_error_less_is_better():
    text = page("lower", [0.90, 0.90], [0.95, 0.95])
    assert "| Ours | 0.9000 ± 0.0000 | +0.0500 ± 0.0000* |" in text


def test_each_is_held_against_controls_too():
    """One point above on both seeds in the round best on validation; runs without a curve have no end."""
    split = [Split("toy", "iid", 4, seed) for seed in (1, 2)]
    scores = {"ours": (0.81, 0.82), "plain": (0.80, 0.81)}
    cells = {
        Cell(split[i], "sage", name): {**run(both[i]), "curve": []} for name, both in scores.items() for i in (0, 1)
    }
    text = tables(replace(SIDE_BY_SIDE, controls=("plain",)), cells, 2)
    assert "| points more than | Plain |" in text
    assert "| Ours, sage | +1.00 ± 0.00* |" in text


def test_baselines_and_scoring_at_clients_stand_beside():
    known = {"scoring_bytes": 1_000_000, "baselines": {"own_majority": {"test": 0.7}}}
    text = tables(SIDE_BY_SIDE, {Cell(Split("toy", "iid", 4, 1), "sage", "ours"): {**run(0.8), **known}}, 1)
    assert "| clients a round | MB | MB with scoring at clients |" in text
    assert "| Ours | 80.00 | 4 | 3 | 4 | 12 | 20 | 1 |" in text
    assert "| own_majority | 70.00 |" in text


def test_what_has_not_run_is_said():
    assert "### toy-iid-4\n\nNot run yet.\n" in tables(SIDE_BY_SIDE, {}, 3)
