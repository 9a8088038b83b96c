"""Executes the tutorials, each in an empty folder, and writes what they print into them: make tutorials."""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "tutorials"
SECONDS = 600
"""The longest that a cell may take."""


def execute(path: Path) -> None:
    """Run all cells of a notebook; keep plain text, in which runs differ as little as can be."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.clear()
        cell["outputs"] = [_plain(output) for output in cell.get("outputs", []) if _is_shown(output)]
        if cell.cell_type != "code":
            del cell["outputs"]
    notebook.metadata.pop("language_info", None)
    nbformat.write(notebook, path)


def _is_shown(output: nbformat.NotebookNode) -> bool:
    return output.output_type == "execute_result" or output.get("name") == "stdout"


def _plain(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    if "data" in output:
        output["data"] = {"text/plain": output["data"]["text/plain"]}
    return output


if __name__ == "__main__":
    for path in [Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
        print(path.name, flush=True)
        execute(path)
