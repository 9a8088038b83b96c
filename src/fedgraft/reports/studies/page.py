"""A study's tables in Markdown, written from its finished cells: mean and spread over paired seeds."""

import os
from pathlib import Path

from fedgraft.errors import InputError
from fedgraft.reports.studies import (
    accuracy_tables,
    error_tables,
    paired_tables,
    selector_tables,
    target_tables,
    time_tables,
)
from fedgraft.reports.studies.panel_runs import Results
from fedgraft.reports.studies.study import Study

START, END = "<!-- tables: written by fedgraft study -->", "<!-- /tables -->"


def write_page(study: Study, results: Results, seeds: int, page: Path, pictures: Path | None = None) -> None:
    """Put the tables between the page's two marks; a page that does not exist is made.

    Args:
        study: whose tables.
        results: of its cells.
        seeds: how many of them.
        page: a Markdown file.
        pictures: a folder; those in it that are named as a table's heading are shown below that, once.
    """
    text = page.read_text() if page.is_file() else f"# {study.title}\n\n{START}\n{END}\n"
    head, found, rest = text.partition(START)
    _, closed, tail = rest.partition(END)
    if not found or not closed:
        raise InputError(f"{page} lacks the marks {START} and {END}, between which the tables go.")
    page.parent.mkdir(parents=True, exist_ok=True)
    written = tables(study, results, seeds)
    for picture in sorted(pictures.glob("*.png")) if pictures else ():
        heading, shown = f"### {picture.stem}\n", os.path.relpath(picture, page.parent)
        written = written.replace(heading, f"{heading}\n![Accuracy against costs: {picture.stem}]({shown})\n", 1)
    page.write_text(f"{head}{START}\n\n{written}\n{END}{tail}")


def tables(study: Study, results: Results, seeds: int) -> str:
    """All panels, in the study's layout."""
    written = {
        "accuracy": accuracy_tables.tables,
        "errors": error_tables.tables,
        "paired": paired_tables.tables,
        "selectors": selector_tables.tables,
        "targets": target_tables.tables,
        "time": time_tables.tables,
    }
    return written[study.layout](study, results, seeds)
