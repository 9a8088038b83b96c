"""Tables of paired differences: by hand."""

from dataclasses import replace

import pytest

from fedgraft.reports.studies.page import tables
from fedgraft.reports.studies.paired_tables import ends_at, paired, rounds_to
from fedgraft.reports.studies.study import Cell, Split
from helpers.small_studies import STUDY, run

PAIRED = replace(STUDY, layout="paired")


def test_differences_are_taken_seed_by_seed():
    assert paired({1: 5.0, 2: 7.0, 3: 9.0}, {1: 4.0, 3: 5.0, 4: 0.0}) == [1.0, 4.0]


def test_where_a_method_ends_and_when_another_is_there():
    curve = run((0, 0, 0.1, 0), (2, 1, 0.5, 1), (4, 2, 0.6, 2), (6, 3, 0.7, 3))["curve"]
    assert ends_at(curve) == pytest.approx(0.6)
    assert rounds_to(curve, 0.6) == 4
    assert rounds_to(curve, 0.8) is None


def page(ours, plain):
    cells = {}
    for name, runs in (("ours", ours), ("plain", plain)):
        for seed, found in enumerate(runs, start=1):
            cells[Cell(Split("toy", "iid", 4, seed), "sage", name)] = found
    return tables(PAIRED, cells, 3)


def points(*scores):
    return [(2 * number, number, score, number) for number, score in enumerate(scores)]


def test_a_table_by_hand():
    ours = [run(*points(0.1, 0.6, 0.8, 0.8), test=test) for test in (0.81, 0.82, 0.83)]
    plain = [run(*points(0.1, 0.4, 0.6, 0.6), test=test) for test in (0.80, 0.81, 0.82)]
    text = page(ours, plain)
    assert "| Ours, sage | 82.00 ± 1.00 | 3 |" in text
    assert "| Ours, sage | +1.00 ± 0.00 (first) | +1.00 ± 0.00 |" in text
    assert "| Plain, sage | +0.00 ± 0.00 | +0.00 ± 0.00 |" in text
    # Plain ends at the mean of 0.4, 0.6 and 0.6; it is there in round 4, ours in round 2.
    assert "| Ours, sage | 2 (0.50x) |" in text
    assert "| Plain, sage | 4 (1.00x) |" in text


def test_what_it_took_is_told():
    found = [{**run(*points(0.1, 0.6), test=0.8), "seconds": seconds} for seconds in (10.0, 20.0)]
    text = page(found, [run(*points(0.1, 0.6))])
    assert "| Ours, sage | 1 (15 s) |" in text  # MB, the last point's
    assert "| Plain, sage | 1 |" in text, "an earlier result does not know its seconds"


def test_who_cannot_be_told_from_the_first_is_with_it():
    ours = [run(*points(0.1, 0.6), test=test) for test in (0.80, 0.84, 0.82)]
    plain = [run(*points(0.1, 0.6), test=test) for test in (0.82, 0.80, 0.83)]
    assert "| Plain, sage | +0.00 ± 0.00 (with the first) |" in page(ours, plain)


def test_without_runs_nothing_is_told():
    assert "Not run yet." in page([], [])


def test_errors_are_told_as_they_are_and_the_lowest_is_first():
    lower = {"metric": "rmse", "better": "lower"}
    ours = [{**run(*points(3.0, 2.0), test=test), **lower} for test in (2.0, 2.2)]
    plain = [{**run(*points(3.0, 2.5), test=test), **lower} for test in (2.5, 2.7)]
    text = page(ours, plain)
    assert "| rmse | toy-iid-4 | seeds |" in text
    assert "| Ours, sage | -0.5000 ± 0.0000 (first) |" in text
    assert "| Plain, sage | +0.0000 ± 0.0000 |" in text
    assert "rounds to where" not in text
    scored = [{**run(*points(0.1, 0.6), test=0.8), "metric": "average_precision"}]
    assert "| average precision, % | toy-iid-4 | seeds |" in page(scored, scored)
