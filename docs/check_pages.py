"""Hold every number in the tables of docs/results against the raw results of its cells, which lie beside the pages.

PYTHONPATH=src python docs/check_pages.py          # exit code 1 if a line of a table is not what the cells give
PYTHONPATH=src python docs/check_pages.py --write  # write the tables anew

No data sets are needed. Both may be followed by names of pages, such as selectors.
"""

import difflib
import importlib.util
import itertools
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from fedgraft.reports.studies import running
from fedgraft.reports.studies import study as studies
from fedgraft.reports.studies.layouts import START, between_marks, page_text
from fedgraft.reports.studies.study import StoredResults

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "results"
COMMAND = re.compile(r"^\S*fedgraft study (\S+) .*$", re.MULTILINE)
SEEDS = re.compile(r"--seeds (\d+)")
USUAL_SEEDS = 3
"""Seeds of a command that names none."""
SCRIPTS = {"attackers": ROOT / "benchmarks" / "attackers.py"}
"""{page: the script that makes its table}, of pages that are no study's."""
WITHOUT_CELLS = ("attacks",)
"""Pages whose table a script counts as it runs, without storing cells."""


class Mismatch(NamedTuple):
    """A line of a page, counted from 1, and what the cells give in its place; "" where one of the two is missing."""

    page: str
    line: int
    printed: str
    recomputed: str


def pages() -> list[Path]:
    """The pages with tables that are written from stored cells."""
    found = (page for page in sorted(PAGES.glob("*.md")) if START in page.read_text(encoding="utf-8"))
    return [page for page in found if page.stem not in WITHOUT_CELLS]


def recomputed(page: Path) -> str:
    """Return the page with tables that are made of its stored cells."""
    text, folder = page.read_text(encoding="utf-8"), page.with_suffix("")
    if page.stem in SCRIPTS:
        return between_marks(text, _of_script(SCRIPTS[page.stem], folder) + "\n", page.name)
    command = COMMAND.search(text)
    if command is None:
        raise SystemExit(f"{page.name} has tables, but no command 'fedgraft study NAME' that makes them.")
    given = SEEDS.search(command[0])
    seeds, study = int(given[1]) if given else USUAL_SEEDS, studies.load(command[1])
    return page_text(study, running.results(study, folder, seeds), seeds, page, folder / "pictures")


def _of_script(script: Path, folder: Path) -> str:
    """Return the table that a benchmark makes of its stored cells."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[script.stem] = module  # data classes look themselves up there
    spec.loader.exec_module(module)
    stored, seeds = StoredResults(folder), range(1, USUAL_SEEDS + 1)
    cells = [module.Cell(*each) for each in itertools.product(module.RULES, module.ATTACKS, seeds)]
    return str(module.table({cell: stored.read(cell.file) or {} for cell in cells}, USUAL_SEEDS))


def mismatches(page: Path) -> list[Mismatch]:
    """Return the lines of a page that are not what its cells give."""
    printed, right = page.read_text(encoding="utf-8").splitlines(), recomputed(page).splitlines()
    found = []
    for kind, start, stop, first, last in difflib.SequenceMatcher(None, printed, right, False).get_opcodes():
        if kind != "equal":
            pairs = itertools.zip_longest(printed[start:stop], right[first:last], fillvalue="")
            found += [Mismatch(page.name, start + place, *pair) for place, pair in enumerate(pairs, 1)]
    return found


def main(arguments: list[str]) -> int:
    """Check or write pages; the exit code."""
    names = [name.removesuffix(".md") for name in arguments if name != "--write"]
    chosen = [page for page in pages() if not names or page.stem in names]
    if unknown := sorted({*names} - {page.stem for page in chosen}):
        print(f"No page with tables of stored cells named {unknown[0]}.", file=sys.stderr)
        return 1
    if "--write" in arguments:
        for page in chosen:
            page.write_text(recomputed(page), encoding="utf-8")
        return 0
    found = [each for page in chosen for each in mismatches(page)]
    for page, line, printed, right in found:
        print(f"docs/results/{page}, line {line}\n  printed:    {printed}\n  recomputed: {right}", file=sys.stderr)
    print(f"{len(chosen)} pages, {len(found)} lines differ.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
