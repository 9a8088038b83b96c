"""A study's tables in Markdown, written from its finished cells: mean and spread over paired seeds."""

import os
from pathlib import Path

from fedgraft.errors import InputError
from fedgraft.reports.studies.cells import PanelRuns, Results
from fedgraft.reports.studies.layouts import LAYOUTS, SIDE_BY_SIDE
from fedgraft.reports.studies.study import SCORING, Study, settings

UNKNOWN = (
    "Scores at the server are free. What they would take at clients is told where the results know it; "
    "those of earlier versions do not.\n"
)
START, END = "<!-- tables: written by fedgraft study -->", "<!-- /tables -->"


def write_page(study: Study, results: Results, seeds: int, page: Path, pictures: Path | None = None) -> None:
    """Put the tables between the page's two marks; a Markdown page that does not exist is made."""
    written = page_text(study, results, seeds, page, pictures)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(written)


def page_text(study: Study, results: Results, seeds: int, page: Path, pictures: Path | None = None) -> str:
    """Return a page with the tables between its two marks; of one that does not exist, its title and the tables.

    Pictures in a folder that are named as a table's heading are shown below that, once.
    """
    text = page.read_text() if page.is_file() else f"# {study.title}\n\n{START}\n{END}\n"
    written = tables(study, results, seeds)
    for picture in sorted(pictures.glob("*.png")) if pictures else ():
        heading, shown = f"### {picture.stem}\n", os.path.relpath(picture, page.parent)
        written = written.replace(heading, f"{heading}\n![Accuracy against costs: {picture.stem}]({shown})\n", 1)
    return between_marks(text, written, str(page))


def between_marks(text: str, written: str, name: str) -> str:
    """Return a page with other tables between its marks. Raises `InputError` with the page's name if it lacks them."""
    head, start, rest = text.partition(START)
    _, end, tail = rest.partition(END)
    if not start or not end:
        raise InputError(f"{name} lacks the marks {START} and {END}, between which the tables go.")
    return f"{head}{START}\n\n{written}\n{END}{tail}"


def tables(study: Study, results: Results, seeds: int) -> str:
    """All panels, in the study's layout, with all settings of a panel side by side or with tables of each setting.

    A line before them says if what scores take is not known of some runs.
    """
    parts, title = ["" if all(SCORING in run for run in results.values()) else UNKNOWN], ""
    if study.layout in SIDE_BY_SIDE:
        for panel in study.panels:
            parts += [f"## {panel['title']}\n", *_written(PanelRuns(study, panel, results, seeds))]
        return "\n".join(filter(None, parts))
    for heading, split, panel in settings(study):
        parts += [f"## {heading}\n"] if heading != title else []
        title = heading
        data, partition, clients = panel["data"][0], panel["partitions"][0], panel["clients"][0]
        name = f"{data}, {partition}, {clients} clients" if study.layout == "errors" else split
        parts += [f"### {name}\n", *_written(PanelRuns(study, panel, results, seeds))]
    return "\n".join(filter(None, parts))


def _written(panel: PanelRuns) -> list[str]:
    """Return what a panel has in the study's layout, and what failed in its runs."""
    parts = LAYOUTS[panel.study.layout](panel) if panel.runs else []
    return [*parts, panel.failures] if parts else ["Not run yet.\n"]
