"""Several seeds of one experiment: run, taken up again, compared."""

from pathlib import Path

import pytest

from fedgraft.errors import InputError
from fedgraft.interface.seed_runs import parse_seeds
from helpers.tiny import ARGUMENTS


def test_seeds_are_run_kept_and_compared(fedgraft) -> None:
    first = fedgraft("run", "fedacs", *ARGUMENTS, "--seeds", "1,3", "--out", "a", "--json")
    assert first.code == 0, first.err
    runs, (group,) = first.json()["runs"], first.json()["groups"]
    assert [(run["seed"], run["folder"]) for run in runs] == [(1, "a/seed-1"), (3, "a/seed-3")]
    assert (group["group"], group["seeds"]) == ("a", [1, 3])
    single = fedgraft("run", "fedacs", *ARGUMENTS, "--seed", 3, "--out", "b", "--json").json()
    assert single["digest"] == runs[1]["digest"]
    kept = Path("a/seed-1/summary.json").stat().st_mtime_ns
    again = fedgraft("run", "fedacs", *ARGUMENTS, "--seeds", "1,2,3", "--out", "a", "-q")
    assert (again.code, "seed 2, in a/seed-2" in again.err, "seed 1, in" in again.err) == (0, True, False)
    assert Path("a/seed-1/summary.json").stat().st_mtime_ns == kept
    assert "paired by seed" in again.out
    compared = fedgraft("compare", "a", "--json").json()
    assert [len(rows) for rows in compared.values()] == [3, 1]
    assert "Means over seeds" in fedgraft("compare", "a").out
    named = fedgraft("compare", "a", "b", "--label", "three", "--label", "one", "--json").json()
    assert [row["group"] for row in named["groups"]] == ["three", "one"]
    assert fedgraft("report", "a", "-o", "r.html", "--label", "three", "--no-classes", "--json").json()["runs"] == 3
    assert "three/seed-2" in Path("r.html").read_text()
    unnamed = fedgraft("report", "a", "b", "-o", "s.html", "--label", "three")
    assert (unnamed.code, Path("s.html").exists()) == (2, False)
    assert "Give each of the 2 folders a label (--label), in their order, or none; got 1: 'three'." in unnamed.err
    other = fedgraft("run", "fedacs", *ARGUMENTS, "selector.name=all", "--seeds", "1,2", "--out", "a")
    assert other.code == 2
    assert "a holds runs with other settings, see a/recipe.toml. Choose another folder." in other.err


def test_seeds_go_without_a_seed(fedgraft) -> None:
    done = fedgraft("run", "fedacs", "--seeds", "1,2", "--seed", 3)
    assert done.code == 2
    assert "--seeds goes without --seed, --on, --from and --track" in done.err


@pytest.mark.parametrize("text", ["", "1", "1,1", "1,x", "1,-2", "1;2"])
def test_what_are_no_seeds(text: str) -> None:
    with pytest.raises(
        InputError, match=r"^--seeds must be two different whole numbers >= 0 or more, such as 1,2,3; got"
    ):
        parse_seeds(text)
