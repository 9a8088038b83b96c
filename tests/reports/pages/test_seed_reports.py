"""Reports of runs with several seeds: means, spreads, paired differences, and who is first."""

import re
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pytest

from fedgraft.reports.figures import figures
from fedgraft.reports.figures.figure_style import RUN_COLOURS
from fedgraft.reports.pages.html_report import write_report
from fedgraft.reports.pages.outcome import group_outcome
from fedgraft.reports.pages.page_tables import page_tables
from fedgraft.reports.stored.seed_groups import SCORE, SeedMean, grouped, open_named, run_of
from helpers.fake_runs import write_run

A, B = (0.95, 0.96, 0.98), (0.90, 0.93, 0.92)


def written(folder: Path, ends: tuple[float, ...], cohort: int, **more: float) -> Path:
    """A folder of runs with the seeds 1, 2, ..., one for each score that they end with."""
    for seed, end in enumerate(ends, 1):
        write_run(folder / f"seed-{seed}", end=end, seed=seed, cohort=cohort, start=end + 0.1, **more)  # type: ignore[arg-type]
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [written(tmp_path / "a", A, 2), written(tmp_path / "b", B, 3)]


def test_a_mean_is_read_as_a_run_is(folders: list[Path]) -> None:
    first, _ = grouped(open_named(folders))
    shown = SeedMean(first)
    tests = [run.summary["test"] for run in first.runs]
    assert (shown.label, shown.summary["seed"], shown.summary["test"]) == ("a", "1, 2, 3", mean(tests))
    assert shown.summary["bytes"]["total"] == mean(run.summary["bytes"]["total"] for run in first.runs)
    np.testing.assert_allclose(shown.curve["test"], np.mean([run.curve["test"] for run in first.runs], axis=0))
    assert shown.sent.sum() == pytest.approx(shown.summary["bytes"]["total"])
    assert shown.best_validation == max(run.best_validation for run in first.runs)
    assert (shown.reaching(0.9), shown.missed(0.9)) == (None, "reached by 0 of 3 seeds")
    assert (reached := shown.reaching(shown.best_validation)) is not None
    assert reached["bytes"] == mean(run.reaching(shown.best_validation)["bytes"] for run in first.runs)  # type: ignore[index]
    assert run_of(grouped(first.runs[:1])[0]) is first.runs[0]


def test_a_mean_ends_where_one_of_its_seeds_does(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, seed=seed, rounds=8) for name, seed in (("a", 1), ("b", 2))]
    short = write_run(tmp_path / "c", seed=3, rounds=5, toml=(runs[0] / "experiment.toml").read_text())
    shown = run_of(grouped(open_named([*runs, short]))[0])
    assert list(shown.curve["round"]) == [0, 1, 2, 3, 4, 5]
    assert len(shown.rounds) == 5


def test_tables_have_means_spreads_and_paired_differences(folders: list[Path]) -> None:
    groups = grouped(open_named(folders))
    tables = page_tables(groups, 1.0)
    scores = [[run.summary[SCORE] for run in group.runs] for group in groups]
    assert [each[SCORE] for each in tables.texts] == [f"{mean(each):.4f} ± {stdev(each):.4f}" for each in scores]
    difference = groups[1].minus(groups[0])[1]
    told = f"{difference.middle:+.4f} ± {difference.half:.4f}"
    assert tables.groups == {"difference to a": ["", told], "seeds": ["1, 2, 3"] * 2}
    assert (tables.best, [each[SCORE] for each in tables.seeds][:1]) == (set(), [f"{scores[0][0]:.4f}"])


def test_first_is_who_is_ahead_beyond_doubt(tmp_path: Path) -> None:
    a, b = written(tmp_path / "a", A, 2), written(tmp_path / "b", B, 3)
    doubtful = written(tmp_path / "c", (0.97, 0.94, 0.99), 4)
    single = write_run(tmp_path / "d", cohort=1, end=0.999, seed=2)

    def said(*folders: Path) -> str:
        return group_outcome(grouped(open_named(folders)))

    assert re.match(
        r"Over 3 seeds b is first: RMSE 0\.\d{4} ± 0\.\d{4} on test at best validation, for [\d.]+ kB a run\. "
        r"It is better than a by 0\.0\d{3} ± 0\.0\d{3} \(paired by seed, 95 % interval\)\. ",
        said(a, b),
    )
    assert "a has the best mean, but is not shown to be first:" in said(a, doubtful)
    assert "95 % interval), an interval that holds 0. " in said(a, doubtful)
    assert "It has one seed alone in common with d. " in said(a, single)
    assert said(a).startswith("Over 3 seeds a reaches RMSE 0.9")
    assert "different data" in said(a, written(tmp_path / "e", A, 2, dataset="other"))  # type: ignore[arg-type]


def test_figures_have_a_thick_mean_and_thin_seeds(folders: list[Path]) -> None:
    groups = grouped(open_named(folders))
    figure = figures.score([run_of(group) for group in groups])
    lines = [(trace.name, trace.line.color, trace.line.width) for trace in figure.data if trace.x[0] is not None]
    names = ["a/seed-1", "a/seed-2", "a/seed-3", "a"]
    assert [name for name, *_ in lines[:8]] == [name for name in names for _ in range(2)]
    assert {colour for _, colour, _ in lines[:8]} == {RUN_COLOURS[0]}
    assert max(width for _, _, width in lines[:6]) < min(width for _, _, width in lines[6:8])
    assert [trace.name for trace in figure.data if trace.showlegend is not False] == ["a", "b"]
    assert all(len(button.args[0]["visible"]) == 16 for button in figure.layout.updatemenus[0].buttons)


def test_a_page_shows_groups(folders: list[Path], tmp_path: Path) -> None:
    page = write_report(folders, tmp_path / "r.html", labels=["FedACS", "ours"]).read_text()
    for part in (
        "Over 3 seeds ours is first",
        "difference to FedACS",
        "Means over seeds ± standard deviation. Differences are paired by seed, ± their 95 % interval.",
        "Each seed",
        "FedACS/seed-3",
        "Who was chosen when: ours/seed-1",
        "thin lines are seeds, thick ones their means",
    ):
        assert part in page
    assert "Who was chosen when: ours/seed-2" not in page
    assert "★ best" not in page
