"""Advice from beginning to end: jobs are done, the verdict is written to a folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedgraft.errors import InputError
from fedgraft.experiment.storage import disk
from fedgraft.reports.advising.asking import Asking
from fedgraft.reports.advising.cells import Cells
from fedgraft.reports.advising.page import markdown, notes_of
from fedgraft.reports.advising.questions import TOGETHER, Question
from fedgraft.reports.advising.verdict import FEDERATE, Verdict, judge, rows_of
from fedgraft.reports.pages.html_report import write_report


@dataclass(frozen=True)
class Advice:
    """The verdict, names of jobs for which there was no time, notes, how many jobs were newly done, and files."""

    verdict: Verdict
    missing: list[str]
    notes: list[str]
    ran: int
    written: list[Path]


def advise(question: Question, folder: Path, minutes: float, say: Callable[[str], None]) -> Advice:
    """Do what is missing of a question's jobs, and write the advice.

    Args:
        question: to answer.
        folder: for `cells/`, `runs/`, `advice.md`, `recipe.toml` where a recipe is recommended, and `report.html`.
        minutes: in which the last job is to end.
        say: hears a line per job.

    Returns:
        The advice. Raises `InputError` for data or overrides that no recipe fits.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file; give a folder.")
    question.shards(question.seeds[0])  # what is wrong with the data is told before anything is written
    cells = Cells(question, folder)
    asking = Asking(question, cells, 60 * minutes, say)
    asking.ask()
    rows = rows_of(question, cells.done, asking.slow)
    verdict = judge(question, rows, asking.skipped)
    missing = [f"{job.name}, seed {job.seed}" for job in asking.skipped]
    notes = notes_of(verdict, missing)
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "advice.md"]
    disk.swap(written[0], markdown(question, verdict, notes))
    recipe = folder / "recipe.toml"
    if verdict.best is not None and verdict.advice == FEDERATE:
        made = question.experiment(verdict.best.candidate, question.seeds[0], yardsticks=True)
        disk.swap(recipe, made.to_toml())
        written.append(recipe)
    else:
        recipe.unlink(missing_ok=True)  # of earlier advice
    runs = [cells.run_folder(job) for job in cells.done if job.kind == TOGETHER and job.seed == question.seeds[0]]
    if kept := [run for run in runs if run is not None]:
        written.append(write_report(kept, folder / "report.html", title=f"Advice on {question.data['name']}"))
    return Advice(verdict, missing, notes, asking.ran, written)
