"""Several seeds in Python: runs that are a sequence, their summary, comparisons and reports."""

import gc
from pathlib import Path

import pandas as pd
import pytest

import fedgraft
from fedgraft.errors import InputError
from helpers.tiny import TINY

RATINGS = pd.DataFrame(
    [(f"u{u}", f"i{i}", 1 + (u + i) % 5, f"shop {u % 2}") for u in range(12) for i in range(8)],
    columns=["user", "item", "rating", "client"],
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> fedgraft.Runs:
    folder = tmp_path_factory.mktemp("runs") / "two"
    return fedgraft.run("fedacs", seeds=[1, 3], out=folder, progress=False, overrides=TINY)


def test_runs_are_a_sequence_with_a_summary(runs: fedgraft.Runs) -> None:
    assert (len(runs), [run.summary["seed"] for run in runs]) == (2, [1, 3])
    single = fedgraft.run("fedacs", seed=3, progress=False, overrides=TINY)
    assert runs[-1].summary["digest"] == single.summary["digest"]
    told = runs.summary
    assert (told["group"], told["seeds"]) == ("two", [1, 3])
    assert told["bytes"]["mean"] == pytest.approx(sum(run.summary["bytes"]["total"] for run in runs) / 2)
    assert "seeds 1, 3" in repr(runs)
    assert "<th style" in runs._repr_html_()
    assert [trace.name for trace in runs.plot().data if trace.showlegend is not False] == ["two"]


def test_a_comparison_has_groups(runs: fedgraft.Runs, tmp_path: Path) -> None:
    other = fedgraft.run("fedacs", seeds=[1, 3], selector="all", out=tmp_path / "all", progress=False, overrides=TINY)
    found = fedgraft.compare([runs, other], labels=["FedACS", "everybody"])
    assert list(found.index) == ["FedACS/seed-1", "FedACS/seed-3", "everybody/seed-1", "everybody/seed-3"]
    assert list(found.groups.index) == ["FedACS", "everybody"]
    scores = found["test_at_best_validation"].to_numpy().reshape(2, 2)
    assert found.groups["test_at_best_validation"].to_numpy() == pytest.approx(scores.mean(1))
    assert found.groups["difference"].to_numpy()[1] == pytest.approx((scores[1] - scores[0]).mean())
    assert found._repr_html_().count("<table") == 2
    assert "difference_half_width" in repr(found)
    assert type(found[["bytes"]]) is pd.DataFrame
    assert len(fedgraft.compare([runs[0]]).groups) == 0
    assert len(runs.compare(other).groups) == 2
    page = runs.report(tmp_path / "r.html", other, labels=["FedACS", "everybody"]).read_text()
    assert "difference to FedACS" in page


def test_tables_in_memory_are_stored_once_for_all_seeds(tmp_path: Path) -> None:
    options = {"rounds": 1, "out": tmp_path / "own", "progress": False, "baselines": [], "runtime": {"workers": 0}}
    runs = fedgraft.run("fedacs", data=RATINGS, seeds=[1, 2], **options)
    assert len(runs.compare().groups) == 1
    assert [path.name for path in (tmp_path / "own" / "data").iterdir()] == ["ratings.parquet"]
    again = fedgraft.run("fedacs", data=RATINGS, seeds=[1, 2, 3], **options)
    assert [run.summary["digest"] for run in again][:2] == [run.summary["digest"] for run in runs]
    with pytest.raises(InputError, match=r"own holds runs with another table data\.ratings, see .*ratings\.parquet\."):
        fedgraft.run("fedacs", data=RATINGS.assign(rating=6 - RATINGS["rating"]), seeds=[1, 2], **options)


def test_a_temporary_folder_lives_as_long_as_a_run_in_it() -> None:
    run = fedgraft.run("fedacs", seeds=[1, 2], progress=False, overrides=TINY)[0]
    gc.collect()
    assert run.folder.is_dir()
    folder = run.folder
    del run
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize("seeds", [[1], [1, 1], [1, -2], [1, True], ["1", "2"]])
def test_what_are_no_seeds(seeds: list[int]) -> None:
    with pytest.raises(InputError, match=r"^seeds must be two different whole numbers >= 0 or more, such as"):
        fedgraft.run("fedacs", seeds=seeds, progress=False)


def test_seeds_go_without_a_seed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"seeds goes without seed, start, track and on_round; got seeds=\[1, 2\]"):
        fedgraft.run("fedacs", seeds=[1, 2], seed=3)
    with pytest.raises(InputError, match="holds no runs of several seeds"):
        fedgraft.Runs(tmp_path)
