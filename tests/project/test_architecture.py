"""The page of the architecture: its picture is that of today's imports, and the top level stays small."""

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_ENTRIES = 14


@pytest.fixture
def check(monkeypatch, capsys):
    """Run a script of docs with `--check`, here: a process of its own would import everything anew."""

    def run(script):
        monkeypatch.syspath_prepend(ROOT / "docs")
        monkeypatch.setattr(sys, "argv", [script, "--check"])
        with pytest.raises(SystemExit) as done:
            runpy.run_path(str(ROOT / "docs" / script), run_name="__main__")
        assert done.value.code == 0, capsys.readouterr().err

    return run


def test_the_picture_is_made_from_the_imports_of_today(check):
    check("architecture_picture.py")


@pytest.mark.parametrize("script", ["recipe_page.py", "policy_page.py"])
def test_a_page_is_made_from_the_docstrings_and_declarations_of_today(check, script):
    check(script)


def test_the_top_level_shows_the_architecture():
    given = {"__init__.py", "__main__.py", "py.typed", "__pycache__"}
    entries = sorted({path.name for path in (ROOT / "src" / "fedgraft").iterdir()} - given)
    assert len(entries) <= MOST_ENTRIES, entries


def test_tests_have_names_of_their_own():
    """Pytest imports tests by their file's name: two of one name end a run of all, and no run of a part."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert not {name for name in names if names.count(name) > 1}
