"""Advice from beginning to end: jobs are done, the verdict is written to a folder."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fedgraft.errors import InputError
from fedgraft.experiment.storage import disk
from fedgraft.reports.advising.asking import Asking
from fedgraft.reports.advising.cells import Cells
from fedgraft.reports.advising.limits import TERA, Limit
from fedgraft.reports.advising.page import markdown, notes_of
from fedgraft.reports.advising.questions import TOGETHER, Question
from fedgraft.reports.advising.verdict import FEDERATE, Verdict, judge, rows_of
from fedgraft.reports.pages.html_report import write_report

MOST_WORK: Final = 5.0
"""TFLOP of all jobs: some ten minutes for small models on one core, which do one to ten GFLOP a second."""


@dataclass(frozen=True)
class Advice:
    """The verdict, {job that was not done: the option whose limit left it out}, notes, jobs newly done, and files."""

    verdict: Verdict
    missing: dict[str, str]
    notes: list[str]
    ran: int
    written: list[Path]


def advise(
    question: Question, folder: Path, say: Callable[[str], None], work: float = MOST_WORK, minutes: float | None = None
) -> Advice:
    """Do what is missing of a question's jobs, and write the advice.

    Args:
        question: to answer.
        folder: for `cells/`, `runs/`, `advice.md`, `recipe.toml` where a recipe is recommended, and `report.html`.
        say: hears a line per job.
        work: operations that all jobs may take, in TFLOP, > 0.
        minutes: in which the last job is to end; None = no limit.

    Returns:
        The advice. Raises `InputError` for data or overrides that no recipe fits.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file; give a folder.")
    question.shards(question.seeds[0])  # what is wrong with the data is told before anything is written
    cells = Cells(question, folder)
    until = math.inf if minutes is None else time.monotonic() + 60 * minutes
    asking = Asking(question, cells, Limit(work * TERA, until), say)
    asking.ask()
    rows = rows_of(question, cells.done, asking.heavy)
    verdict = judge(question, rows, asking.skipped)
    missing = {f"{job.name}, seed {job.seed}": limit for job, limit in asking.skipped.items()}
    notes = notes_of(verdict, missing)
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "advice.md"]
    disk.swap(written[0], markdown(question, verdict, notes))
    recipe = folder / "recipe.toml"
    if verdict.best is not None and verdict.advice == FEDERATE:
        made = question.experiment(verdict.best.candidate, question.seeds[0], baselines=True)
        disk.swap(recipe, made.to_toml())
        written.append(recipe)
    else:
        recipe.unlink(missing_ok=True)  # of earlier advice
    runs = [cells.run_folder(job) for job in cells.done if job.kind == TOGETHER and job.seed == question.seeds[0]]
    if kept := [run for run in runs if run is not None]:
        written.append(write_report(kept, folder / "report.html", title=f"Advice on {question.data['name']}"))
    return Advice(verdict, missing, notes, asking.ran, written)
