"""Paths of data from the file that names them: runs that move with their data, recipes that lie beside them."""

import tomllib
from pathlib import Path

import pandas as pd
import pytest
import tomli_w

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment.recipes.recipe_files import from_here, read_file, whole, whole_text
from helpers.two_shops import OPTIONS, PAIRS, ratings

SHORT = {"rounds": 2, "training.schedule": "constant", "selector.name": "all"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data and with a run on them, which was given their path from there."""
    folder = tmp_path / "then"
    (folder / "data").mkdir(parents=True)
    ratings().to_csv(folder / "data" / "ratings.csv", index=False)
    monkeypatch.chdir(folder)
    data = {"ratings": "data/ratings.csv", "partition": "given"}
    fedgraft.run("fedacs", data=data, out="runs/a", overrides={**OPTIONS, **SHORT}, progress=False)
    return folder


def test_by_hand() -> None:
    data = {"label": "kind", "root": "/home/me/data", "links": ["/home/me/runs/a/links.csv", "/mnt/x.csv"]}
    text = tomli_w.dumps({"seed": 1, "data": data})
    stored = from_here(text, Path("/home/me/runs/a"))
    assert tomllib.loads(stored) == {
        "here": "/home/me/runs/a",
        "seed": 1,
        "data": {"label": "kind", "root": "{here}/../../data", "links": ["{here}/links.csv", "/mnt/x.csv"]},
    }
    assert tomllib.loads(whole_text(stored, Path("/home/me/runs/a"))) == tomllib.loads(text)


def test_paths_that_share_no_folder_with_the_run_stay_whole() -> None:
    text = '[data]\nroot = "/mnt/data"\n'
    assert from_here(text, Path("/home/me/runs/a")) == text == whole_text(text, Path("/elsewhere"))


def test_data_beside_the_file_go_before_those_where_it_was(tmp_path: Path) -> None:
    content = {"here": str(tmp_path / "then"), "data": {"root": "{here}/data"}}
    for name in ("then", "now"):  # both are there at last
        (tmp_path / name / "data").mkdir(parents=True)
        assert whole(content, tmp_path / "now")["data"] == {"root": str(tmp_path / name / "data")}
    assert whole({"data": {"root": "{here}"}}, tmp_path)["data"] == {"root": str(tmp_path)}


def test_a_folder_moves_with_its_runs_and_their_data(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fedgraft.open("runs/a").predict(PAIRS)
    now = project.rename(project.with_name("now"))
    monkeypatch.chdir(project.parent)
    pd.testing.assert_frame_equal(fedgraft.open("now/runs/a").predict(PAIRS), before)
    assert fedgraft.resume("now/runs/a", progress=False, rounds=3).summary["rounds"] == 3
    assert fedgraft.open("now/runs/a").report("report.html").is_file()
    now.rename(project.with_name("later"))
    assert len(fedgraft.open("later/runs/a").predict(PAIRS)) == 2, "the run that went on moves as well"
    again = fedgraft.run("later/runs/a/experiment.toml", progress=False)
    assert again.summary["digest"] == fedgraft.open("later/runs/a").summary["digest"]


def test_a_run_that_moves_alone_finds_its_data_where_they_were(project: Path) -> None:
    before = fedgraft.open("runs/a").predict(PAIRS)
    moved = (project / "runs" / "a").rename(project.parent / "a")
    pd.testing.assert_frame_equal(fedgraft.open(moved).predict(PAIRS), before)


def test_data_that_are_gone_are_named(project: Path) -> None:
    (project / "data" / "ratings.csv").unlink()
    with pytest.raises(InputError, match=r"no file .*then/data/ratings\.csv.* data_root DIR"):
        fedgraft.open("runs/a").predict(PAIRS)


def test_a_recipe_may_name_data_beside_it(project: Path) -> None:
    recipe = project / "data" / "mine.toml"
    recipe.write_text(
        'extends = "fedacs"\n[data]\nname = "table"\nratings = "{here}/ratings.csv"\ntrust = "links.csv"\n'
    )
    _, content = read_file(str(recipe))
    assert content["data"] == {
        "name": "table",
        "ratings": str(project / "data" / "ratings.csv"),
        "trust": "links.csv",  # as ever: from the current folder
    }
