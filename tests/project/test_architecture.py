"""The page of the architecture: its picture is that of today's imports, and the top level stays small."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_ENTRIES = 13


def test_the_picture_is_made_from_the_imports_of_today():
    script = ROOT / "docs" / "architecture_picture.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", ["recipe_page.py", "policy_page.py"])
def test_a_page_is_made_from_the_docstrings_and_declarations_of_today(script):
    script = ROOT / "docs" / script
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_top_level_shows_the_architecture():
    given = {"__init__.py", "__main__.py", "py.typed", "__pycache__"}
    entries = sorted({path.name for path in (ROOT / "src" / "fedgraft").iterdir()} - given)
    assert len(entries) <= MOST_ENTRIES, entries


def test_files_and_functions_stay_short():
    """No file above 400 lines, no function above 60."""

    long = []
    for path in sorted((ROOT / "src" / "fedgraft").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > 400:
            long.append(f"{path.name}: {text.count(chr(10))} lines")
        functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
        sizes = {node.name: node.end_lineno - node.lineno + 1 for node in functions}
        long += [f"{path.name}:{name}: {size} lines" for name, size in sizes.items() if size > 60]
    assert not long


def test_tests_have_names_of_their_own():
    """Pytest imports tests by their file's name: two of one name end a run of all, and no run of a part."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert not {name for name in names if names.count(name) > 1}
