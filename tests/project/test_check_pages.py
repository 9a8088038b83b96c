"""The tables of docs/results are what their stored cells give."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    """docs/check_pages.py, imported."""
    spec = importlib.util.spec_from_file_location("check_pages", ROOT / "docs" / "check_pages.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_pages"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["check_pages"]


PAGES = sorted(path.parent.with_suffix(".md").name for path in (ROOT / "docs" / "results").glob("*/results.jsonl.xz"))


def test_all_pages_with_stored_cells_are_checked(script):
    assert [page.name for page in script.pages()] == PAGES


LONG = ("cefgl.md", "fedacs.md", "fedais.md", "openfgl.md", "rafhgl.md", "reputation-ucb.md", "selectors.md")
"""Pages whose tables take seconds."""


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow) if page in LONG else page for page in PAGES]
)
def test_a_page_prints_what_its_cells_give(script, page):
    assert script.mismatches(ROOT / "docs" / "results" / page) == []


def test_a_number_that_was_changed_is_named_and_written_anew(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(script, "PAGES", tmp_path)
    shutil.copytree(ROOT / "docs" / "results" / "cefgl_small", tmp_path / "cefgl_small")
    page = tmp_path / "cefgl_small.md"
    text = (ROOT / "docs" / "results" / "cefgl_small.md").read_text()
    lines = text.splitlines()
    place = next(n for n, line in enumerate(lines) if n > lines.index(script.START) and line.startswith("| CEFGL"))
    changed = lines[place].replace("1", "7")
    page.write_text("\n".join([*lines[:place], changed, *lines[place + 1 :], ""]))
    assert script.main([]) == 1
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        f"docs/results/cefgl_small.md, line {place + 1}",
        f"  printed:    {changed}",
        f"  recomputed: {lines[place]}",
    ]
    assert said.out == "1 pages, 1 lines differ.\n"
    assert script.main(["--write", "cefgl_small"]) == 0
    assert page.read_text() == text
    assert script.main([]) == 0
    assert script.main(["cefgl_smal"]) == 1
