"""Tables against each control: by hand."""

from dataclasses import replace

import pytest

from fedgraft.reports.studies.claims import end_of, fewer
from fedgraft.reports.studies.layouts import tables
from fedgraft.reports.studies.study import Cell, Split
from helpers.small_studies import STUDY

RUNS = [["sage", "ours"], ["sage", "plain"], ["sage", "careful"]]
PAIRED = replace(
    STUDY,
    layout="paired",
    controls=("plain",),
    target={"reference": "careful", "below": 10},
    panels=({**STUDY.panels[0], "runs": RUNS},),
)


def run(*scores, test=0.8, pace=1.0):
    """A run that is scored in every round, which takes `pace` seconds; on test it has 0.01 less than on validation."""
    curve = [[number, 1e6, score, score - 0.01, 1e9, pace * number] for number, score in enumerate(scores)]
    return {"test_at_best_validation": test, "bytes": {"total": 1e6}, "flops": 1e9, "curve": curve}


def page(ours, plain, careful, study=PAIRED):
    cells = {}
    for name, runs in (("ours", ours), ("plain", plain), ("careful", careful)):
        for seed, found in enumerate(runs, start=1):
            cells[Cell(Split("toy", "iid", 4, seed), "sage", name)] = found
    return tables(study, cells, 3)


def test_the_end_is_the_mean_of_the_last_three_rounds():
    assert end_of(run(0.9, 0.6, 0.7, 0.8)) == pytest.approx(0.69)


def test_a_method_without_a_curve_has_no_end():
    alone = {**run(test=0.8), "curve": []}
    assert end_of(alone) is None
    text = page([run(0.6, test=0.81), run(0.6, test=0.83)], [alone, alone], [], replace(PAIRED, target={}))
    assert "| points more than | Plain |\n|---|---|\n| Ours, sage | +2.00 ± 12.71 |" in text
    assert "at the end than" not in text


def test_who_never_gets_there_has_spent_all_it_had():
    quick, slow = run(0.1, 0.6, 0.6), run(0.1, 0.2, 0.3, 0.3, 0.6, pace=3.0)
    assert fewer(quick, slow, 0.5, "round") == pytest.approx(75)  # 1 of 4
    assert fewer(quick, slow, 0.5, "simulated_seconds") == pytest.approx(100 * 11 / 12)
    never = run(0.1, 0.2, 0.2)
    assert fewer(quick, never, 0.5, "round") == pytest.approx(50), "1 of the 2 that it had"
    assert str(fewer(never, quick, 0.5, "round")) == "nan"


def test_a_table_by_hand():
    """The target is 0.6 - 0.1: ours is there in round 1, plain in round 2 on each seed."""
    ours = [run(0.1, 0.6, 0.6, 0.6, test=test) for test in (0.81, 0.83, 0.82)]
    plain = [run(0.1, 0.3, 0.6, 0.6, test=test, pace=2.0) for test in (0.80, 0.81, 0.82)]
    text = page(ours, plain, [run(0.1, 0.6)] * 3)
    assert "| points more than | Plain |\n|---|---|\n| Ours, sage | +1.00 ± 2.48 |" in text  # 1, 2 and 0
    assert "| points more at the end than | Plain |\n|---|---|\n| Ours, sage | +10.00 ± 0.00* |" in text
    assert "| % fewer rounds to the target than | Plain |\n|---|---|\n| Ours, sage | +50.00 ± 0.00* |" in text
    assert (
        "| % fewer simulated seconds to the target than | Plain |\n|---|---|\n| Ours, sage | +75.00 ± 0.00* |" in text
    )
    assert "| Ours, sage | 1.0 ± 0.0, 3 of 3 seeds (1 s) |" in text
    assert "| Careful, sage |  |" not in text, "who sets the target is not held against controls"


def test_whoever_is_not_there_on_a_seed_says_so():
    ours = [run(0.1, 0.6), run(0.1, 0.2)]
    text = page(ours, [run(0.1, 0.6)] * 2, [run(0.1, 0.6)] * 2)
    assert "| % fewer rounds to the target than | Plain |\n|---|---|\n| Ours, sage | there on 1 of 2 seeds |" in text


def test_seeds_that_options_were_chosen_on_have_no_part():
    ours = [run(0.1, 0.6, test=test) for test in (0.99, 0.82, 0.84)]
    text = page(ours, [run(0.1, 0.6)] * 3, [run(0.1, 0.6)] * 3, replace(PAIRED, tuned={"seeds": [1]}))
    assert "| points more than | Plain |\n|---|---|\n| Ours, sage | +3.00 ± 12.71 |" in text


def test_sets_that_options_were_chosen_on_are_left_out_and_said():
    some = [run(0.1, 0.6)] * 2
    assert "Against each control" not in page(some, some, some, replace(PAIRED, tuned={"sets": ["toy"]}))
    text = page(some, some, some, replace(PAIRED, tuned={"seeds": [1]}))
    assert "Left out, as options were chosen on them: seed 1. Against each control" in text


def test_errors_are_held_against_controls_with_the_same_model():
    """Errors of 0.81, 0.83 and 0.82 against 0.80, 0.81 and 0.82: 0.01, 0.02 and 0 more."""
    study = replace(PAIRED, layout="errors", reference="careful", target={})
    cells = {}
    for name, model, tests in (
        ("ours", "sage", (0.81, 0.83, 0.82)),
        ("plain", "sage", (0.80, 0.81, 0.82)),
        ("ours", "gat", (0.5, 0.5, 0.5)),
    ):
        for seed, test in enumerate(tests, start=1):
            found = {**run(0.9, 0.8, test=test), "better": "lower", "metric": "rmse", "baselines": {}}
            cells[Cell(Split("toy", "iid", 4, seed), model, name)] = found
    panel = {**study.panels[0], "runs": [*RUNS, ["gat", "ours"]]}
    text = tables(replace(study, panels=(panel,)), cells, 3)
    assert "| more than | Plain |\n|---|---|\n| Ours, sage | +0.0100 ± 0.0248 |\n\n" in text, "no row without values"
    assert "Against each control" not in tables(replace(study, panels=(panel,), tuned={"sets": ["toy"]}), cells, 3)


def test_without_controls_there_is_no_table():
    some = [run(0.1, 0.6)] * 2
    assert "Against each control" not in page(some, some, some, replace(PAIRED, controls=()))
    assert "to the target than" not in page(some, some, some, replace(PAIRED, target={}))
