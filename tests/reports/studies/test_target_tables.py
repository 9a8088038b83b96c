"""Tables of what methods spend until they reach a target: by hand."""

import pytest

from fedgraft.reports.studies.study import Cell, Split, Study
from fedgraft.reports.studies.target_tables import spent, tables, target

STUDY = Study(
    name="toy",
    title="Toy",
    recipe="fedavg",
    reference="plain",
    also="careful",
    layout="targets",
    common={},
    methods={"ours": {"label": "Ours"}, "plain": {"label": "Plain"}, "careful": {"label": "Careful"}},
    panels=(
        {
            "title": "One",
            "data": ["toy"],
            "partitions": ["iid"],
            "clients": [4],
            "runs": [["sage", "ours"], ["sage", "plain"], ["sage", "careful"]],
            "yardsticks": [],
            "paper": {"toy-iid-4": {"sage-ours": 81.5}},
        },
    ),
)


def run(*points, test=0.8):
    """A run with points (round, MB, validation, GFLOP)."""
    last = points[-1]
    return {
        "test_at_best_validation": test,
        "bytes": {"total": last[1] * 1e6},
        "flops": last[3] * 1e9,
        "curve": [[number, size * 1e6, score, score - 0.01, flops * 1e9] for number, size, score, flops in points],
    }


PLAIN = [
    run((0, 0, 0.5, 0), (2, 100, 0.80, 10), (4, 200, 0.90, 20)),
    run((0, 0, 0.5, 0), (2, 100, 0.84, 10), (4, 200, 0.86, 20)),
]
OURS = [run((0, 0, 0.5, 0), (2, 5, 0.70, 1), (4, 10, 0.88, 2), test=0.82)]


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
