"""Tables of paired differences: by hand."""

from dataclasses import replace

import pytest

from fedgraft.reports.studies.claims import ends_at, rounds_to
from fedgraft.reports.studies.layouts import tables
from fedgraft.reports.studies.study import Cell, Split
from fedgraft.reports.studies.tables import paired
from helpers.small_studies import STUDY, run

PAIRED = replace(STUDY, layout="paired", target={})


def test_differences_are_taken_seed_by_seed():
    assert paired({1: 5.0, 2: 7.0, 3: 9.0}, {1: 4.0, 3: 5.0, 4: 0.0}) == [1.0, 4.0]


def test_where_a_method_ends_and_when_another_is_there():
    curve = run((0, 0, 0.1, 0), (2, 1, 0.5, 1), (4, 2, 0.6, 2), (6, 3, 0.7, 3))["curve"]
    assert ends_at(curve) == pytest.approx(0.6)
    assert rounds_to(curve, 0.6) == 4
    assert rounds_to(curve, 0.8) is None


def page(ours, plain, study=PAIRED, seeds=3):
    cells = {}
    for name, runs in (("ours", ours), ("plain", plain)):
        for seed, found in enumerate(runs, start=1):
            cells[Cell(Split("toy", "iid", 4, seed), "sage", name)] = found
    return tables(study, cells, seeds)


def points(*scores):
    return [(2 * number, number, score, number) for number, score in enumerate(scores)]


def test_a_table_by_hand():
    ours = [run(*points(0.1, 0.6, 0.8, 0.8), test=test) for test in (0.81, 0.82, 0.83)]
    plain = [run(*points(0.1, 0.4, 0.6, 0.6), test=test) for test in (0.80, 0.81, 0.82)]
    text = page(ours, plain)
    assert "| Ours, sage | 82.00 ± 1.00 | 3 |" in text
    assert "| Ours, sage | +1.00 ± 0.00* (highest) | +1.00 ± 0.00* |" in text
    assert "| Plain, sage | +0.00 ± 0.00 | +0.00 ± 0.00 |" in text
    # Plain ends at the mean of 0.4, 0.6 and 0.6; it is there in round 4, ours in round 2.
    assert "| Ours, sage | 2 (0.50x) |" in text
    assert "| Plain, sage | 4 (1.00x) |" in text


def test_what_it_took_is_told():
    found = [{**run(*points(0.1, 0.6), test=0.8), "seconds": seconds} for seconds in (10.0, 20.0)]
    text = page(found, [{**run(*points(0.1, 0.6)), "flops": None}])
    assert "| Ours, sage | 1 (1 GFLOP, 15 s) |" in text  # MB and GFLOP are the last point's
    assert "| Plain, sage | 1 |" in text, "an earlier result does not know its seconds, nor its operations"
    assert "those of earlier versions do not" in text
    assert "MB with scoring at clients" not in text


def test_scoring_at_clients_is_told_where_it_is_known():
    found = [{**run(*points(0.1, 0.6)), "scoring_bytes": more} for more in (2_000_000, 4_000_000)]
    text = page(found, [run(*points(0.1, 0.6))])
    assert "| MB with scoring at clients | toy-iid-4 |" in text
    assert "| Ours, sage | 4 |" in text  # 1 MB, and the mean of 2 and 4
    assert "| Plain, sage |  |" in text


def test_the_mean_of_the_columns_is_corrected_over_its_own_comparisons():
    """Two columns make two comparisons, whose p-values of 0.03 are doubled; the means make one, and keep 0.03."""
    two = replace(PAIRED, panels=({**PAIRED.panels[0], "clients": [4, 8]},))
    cells = {}
    for clients in (4, 8):
        for seed, more in enumerate((0.01, 0.02, 0.04, 0.01, 0.05), 1):
            for name, test in (("ours", 0.5 + more), ("plain", 0.5)):
                cells[Cell(Split("toy", "iid", clients, seed), "sage", name)] = run(*points(0.1, 0.6), test=test)
    text = tables(two, cells, 5)
    assert "over all 2 comparisons with Plain" in text
    assert "corrected by Holm over its own 1 comparisons" in text
    assert "| Ours, sage | +2.60 ± 2.26 (first) | +2.60 ± 2.26 (first) | +2.60 ± 2.26* |" in text


def test_seeds_and_sets_that_options_were_chosen_on_have_no_part_in_differences():
    ours = [run(*points(0.1, 0.6), test=test) for test in (0.99, 0.82, 0.84)]
    plain = [run(*points(0.1, 0.6), test=test) for test in (0.10, 0.80, 0.83)]
    text = page(ours, plain, replace(PAIRED, tuned={"seeds": [1]}))
    assert "Left out, as options were chosen on them: seed 1. Paired" in text
    assert "+1.50 ± 6.35 (highest) |" in text  # 2 and 1: half a width of 12.706 x 0.7071 / sqrt(2)
    assert "| Ours, sage | 88.33 ± 9.29 | 3 |" in text, "scores are of all seeds"
    text = page(ours, plain, replace(PAIRED, tuned={"seeds": [2, 3], "sets": ["toy"]}))
    assert "chosen on seeds 2, 3; set toy. Fewer than 2 fresh seeds are left, so nothing is tested." in text
    assert "| Ours, sage | +30.67 | +30.67 |" in text  # the mean of 89, 2 and 1
    assert "asterisk" not in text


def test_rounds_to_a_target_are_those_of_each_seed():
    """Plain's bests are 0.6 and 0.9; 10 points below are 0.5 and 0.8. Ours is there in rounds 2 and never."""
    ours = [run(*points(0.1, 0.55, 0.7)), run(*points(0.1, 0.6, 0.7))]
    plain = [run(*points(0.1, 0.45, 0.6)), run(*points(0.1, 0.85, 0.9))]
    below = replace(PAIRED, target={"below": 10})
    text = page(ours, plain, below)
    assert "| rounds to the best of Plain, less 10 points | toy-iid-4 |" in text
    assert "| Ours, sage | 2.0, 1 of 2 seeds |" in text
    assert "| Plain, sage | 3.0 ± 1.4, 2 of 2 seeds |" in text
    assert "ends" not in text
    share = page(ours, plain, replace(PAIRED, target={"reference": "ours", "share": 0.5}))
    assert "| rounds to 50 % of the best of Ours | toy-iid-4 |" in share
    assert "| Plain, sage | 2.0 ± 0.0, 2 of 2 seeds |" in share  # 0.35 both
    never = page([run(*points(0.1, 0.2))], plain, below)
    assert "| Ours, sage | 0 of 1 seeds |" in never


def test_who_cannot_be_told_from_the_highest_is_with_it():
    ours = [run(*points(0.1, 0.6), test=test) for test in (0.80, 0.84, 0.82)]
    plain = [run(*points(0.1, 0.6), test=test) for test in (0.82, 0.80, 0.83)]
    assert "| Plain, sage | +0.00 ± 0.00 (with the highest) |" in page(ours, plain)


def test_without_runs_nothing_is_told():
    assert "Not run yet." in page([], [])


def test_errors_are_told_as_they_are_and_the_lowest_is_told():
    lower = {"metric": "rmse", "better": "lower"}
    ours = [{**run(*points(3.0, 2.0), test=test), **lower} for test in (2.0, 2.2)]
    plain = [{**run(*points(3.0, 2.5), test=test), **lower} for test in (2.5, 2.7)]
    text = page(ours, plain)
    assert "| rmse | toy-iid-4 | seeds |" in text
    assert "| Ours, sage | -0.5000 ± 0.0000* (lowest) | -0.5000 ± 0.0000* |" in text
    assert "| Plain, sage | +0.0000 ± 0.0000 |" in text
    assert "rounds to where" not in text
    scored = [{**run(*points(0.1, 0.6), test=0.8), "metric": "average_precision"}]
    assert "| average precision, % | toy-iid-4 | seeds |" in page(scored, scored)
