"""Limits on the shape of the code: what breaks one is listed, and the list may only shrink."""

import runpy
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script():
    """The script's names; it reads every file of the source once."""
    if not (ROOT / "tools" / "limits.py").is_file():
        pytest.skip("needs the repository")
    found = runpy.run_path(str(ROOT / "tools" / "limits.py"))
    within, every = found["main"].__globals__, found["of_files"]
    within["of_files"] = found["of_files"] = cache(lambda: list(every()))
    return found


@pytest.fixture
def limits(script, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["limits.py"])
    return script


def test_functions_stay_below_60_lines(limits):
    assert [each for each in limits["of_files"]() if each[0] == "function" and each[2] > 60] == []


def test_what_breaks_a_limit_more_than_is_listed_is_said(limits):
    found = {"bases": {"a.Wide": 9, "a.Listed": 8}, "imports": {"a.py": 31}}
    said = limits["worse"](found, {"bases": {"a.Listed": 8}, "imports": {"a.py": 30}})
    assert said == ["a.Wide has 9 bases, and 6 are most", "a.py has 31 imports, and 30 are most"]


def test_a_list_that_is_gone_allows_nothing(limits, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(limits["main"].__globals__, "LISTED", tmp_path / "limits.toml")
    monkeypatch.setitem(limits["LIMITS"], "options", 10)
    assert limits["main"]() == 1
    assert "data.nodes.Nodes has" in capsys.readouterr().err
    assert not (tmp_path / "limits.toml").exists()


def test_a_list_that_is_written_is_read_again(limits):
    found = {"bases": {"a.b.Wide": 9}, "function": {"a.py:run": 61}}
    assert tomllib.loads(limits["written"](found)) == found


def test_files_say_how_many_modules_they_import(limits):
    counted = {place: number for name, place, number in limits["of_files"]() if name == "imports"}
    assert counted["errors.py"] == 6
