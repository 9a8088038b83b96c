"""Tutorials: all cells of each notebook run one after the other, and what they printed is kept."""

import json
import sys
from pathlib import Path

import pytest

import fedgraft

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
FEDERATION = {"federation.ipynb", "ring_across_banks.ipynb"}
SMALL = {"rounds": 2, "runtime": {"workers": 0}}


def code_cells(path):
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """A tutorial's own folder; what it puts on Python's path, and imports from there, is gone afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in [name for name, module in sys.modules.items() if name not in before and _is_of(module, tmp_path)]:
        del sys.modules[name]


def _is_of(module, folder):
    return str(getattr(module, "__file__", None)).startswith(str(folder))


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=pytest.mark.federation if path.name in FEDERATION else ())
        for path in NOTEBOOKS
    ],
)
@pytest.mark.usefixtures("empty_folder")
def test_all_cells_run(path, monkeypatch):
    run = fedgraft.run
    monkeypatch.setattr(fedgraft, "run", lambda recipe, **choices: run(recipe, **{**choices, **SMALL}))
    names = {"__name__": "tutorial"}
    for cell in code_cells(path):
        exec(compile("".join(cell["source"]), path.name, "exec"), names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_was_executed_and_is_listed(path):
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert any(cell["outputs"] for cell in cells)
    assert not any(output["output_type"] == "error" for cell in cells for output in cell["outputs"])
    assert f"({path.name})" in (FOLDER / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_of_a_notebook_exist(path):
    text = path.read_text(encoding="utf-8")
    links = [part.split(")")[0].split("#")[0] for part in text.split("](")[1:]]
    assert all((FOLDER / link).exists() for link in links if "://" not in link)
