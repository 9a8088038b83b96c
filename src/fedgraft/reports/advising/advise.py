"""Advice from beginning to end: jobs are done, the most telling first, and the verdict is written to a folder."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Final

from fedgraft.errors import FedgraftError, InputError
from fedgraft.experiment.recipes.units import human_seconds
from fedgraft.experiment.storage import disk
from fedgraft.reports.advising.cells import TERA, TIME, WORK, Cells, Limit, StoppedError, equal, human_operations
from fedgraft.reports.advising.page import markdown, notes_of
from fedgraft.reports.advising.questions import (
    ALONE,
    LEAST_SEEDS,
    LOCAL,
    ONE_PLACE,
    TOGETHER,
    Candidate,
    Question,
    Trial,
)
from fedgraft.reports.advising.verdict import FEDERATE, Verdict, judge, rows_of
from fedgraft.reports.pages.html_report import write_report

MOST_WORK: Final = 5.0
"""TFLOP of all jobs: some ten minutes for small models on one core, which do one to ten GFLOP a second."""


@dataclass
class Asking:
    """Asks a question: does its jobs, the most telling first, within a limit of all their work and time.

    With two seeds the first recipe and its model trained alone, then the other recipes, the models of the best one and
    of cheaper equals trained alone, and what one place could do; then the same with the other seeds, the best first.
    """

    question: Question
    cells: Cells
    limit: Limit
    say: Callable[[str], None]
    heavy: dict[str, float] = field(default_factory=dict)
    """{recipe: operations that a run of it would take}, of those that would take too many."""
    skipped: dict[Trial, str] = field(default_factory=dict)
    """{job that was not done: the option whose limit left it out}."""
    ran: int = 0
    """Jobs that were not done before."""
    spent: int = 0
    """Operations of all jobs that are done or were stopped."""

    def ask(self) -> None:
        """Do every job that the limits allow."""
        for job in self._jobs():
            if job in self.skipped or job in self.cells.done:
                continue
            found = self.cells.find(job)
            if found is None:
                self._do(job)
            else:
                self.spent += found["operations"]

    @property
    def leader(self) -> Candidate | None:
        """The recipe that is best on validation so far, on the seeds that all recipes have; None without any."""
        scores = {candidate: self._scores(candidate) for candidate in self.question.choice.recipes}
        known = {candidate: by_seed for candidate, by_seed in scores.items() if len(by_seed) >= LEAST_SEEDS}
        known = known or {candidate: by_seed for candidate, by_seed in scores.items() if by_seed}
        if not known:
            return None
        shared = set.intersection(*map(set, known.values()))
        better = next(cell["better"] for cell in self.cells.done.values() if "better" in cell)
        sign = -1 if better == "lower" else 1
        return max(known, key=lambda each: sign * mean(known[each][seed] for seed in shared or known[each]))

    @property
    def _leading(self) -> list[Candidate]:
        """The leader and those that are equal to it for fewer bytes: one of them may be the one that is advised."""
        if (leader := self.leader) is None:
            return []
        scores, most = self._scores(leader), self._bytes(leader)
        others = (each for each in self.question.choice.recipes if each != leader and self._scores(each))
        return [leader, *(each for each in others if equal(scores, self._scores(each)) and self._bytes(each) < most)]

    def _bytes(self, candidate: Candidate) -> float:
        cells = (cell for job, cell in self.cells.done.items() if job.row == (TOGETHER, candidate.name))
        return float(mean(cell["bytes"]["total"] for cell in cells if "bytes" in cell))

    def _scores(self, candidate: Candidate) -> dict[int, float]:
        cells = {job.seed: cell for job, cell in self.cells.done.items() if job.row == (TOGETHER, candidate.name)}
        return {seed: cell["validation"] for seed, cell in cells.items() if "refused" not in cell}

    def _jobs(self) -> Iterator[Trial]:
        seeds, any_model = self.question.seeds, self.question.choice.recipes[0]
        for group in (seeds[:LEAST_SEEDS], seeds[LEAST_SEEDS:]):
            for seed in group:
                for alone in self.question.choice.alone:
                    yield Trial(ALONE, alone.name, seed, alone.name, any_model)
            leader = self.leader
            ordered = [*([leader] if leader else []), *(c for c in self.question.choice.recipes if c != leader)]
            for candidate in ordered:
                yield from self._of(candidate, group, candidate == leader)
            for candidate in self._leading:
                yield from self._trained_alone(candidate, seeds if group[:1] != seeds[:1] else group)
            for seed in group:
                for name in self.question.choice.central:
                    yield Trial(ONE_PLACE, name, seed, name, any_model)

    def _of(self, candidate: Candidate, seeds: tuple[int, ...], is_best: bool) -> Iterator[Trial]:
        """A recipe's runs; beside those of the best so far, and of the first that can be run, its model alone."""
        for seed in seeds:
            run = Trial(TOGETHER, candidate.name, seed, "", candidate)
            if candidate.name in self.heavy or self._refused(candidate):
                return
            yield run
            if run in self.cells.done and not self._refused(candidate) and (is_best or self._is_first):
                yield from self._trained_alone(candidate, (seed,))

    @property
    def _is_first(self) -> bool:
        """True while one recipe alone has results."""
        return len({job.name for job, cell in self.cells.done.items() if "curve" in cell}) == 1

    def _refused(self, candidate: Candidate) -> bool:
        return any("refused" in cell for job, cell in self.cells.done.items() if job.row == (TOGETHER, candidate.name))

    def _trained_alone(self, candidate: Candidate, seeds: tuple[int, ...]) -> Iterator[Trial]:
        """The candidate's model trained by each client alone; where another's is the same, that one's."""
        own = Trial(ALONE, f"{candidate.name}'s model", seeds[0], LOCAL, candidate)
        wanted = self.question.settings(own)["sections"]
        for other in self.question.choice.recipes:
            job = Trial(ALONE, f"{other.name}'s model", seeds[0], LOCAL, other)
            if self.question.settings(job)["sections"] == wanted:
                yield from (Trial(ALONE, job.name, seed, LOCAL, other) for seed in seeds)
                return

    def _do(self, job: Trial) -> None:
        left, expected = self.limit.operations - self.spent, self._expected(job)
        counted = job.baseline in ("", LOCAL)  # other baselines take no operations of clients
        if self.limit.time_is_up or (counted and (left <= 0 or expected > left)):
            self.skipped[job] = TIME if self.limit.time_is_up else WORK
            takes = f"; it takes about {human_operations(expected)}" if expected else ""
            self.say(f"{self._called(job)}: not started for {self.skipped[job]}{takes}, {self._left}")
            return
        first = not self._scores(job.candidate)
        try:
            cell = self.cells.run(job, Limit(left / LEAST_SEEDS if first else left, self.limit.until))
        except StoppedError as error:
            self._note_stopped(job, error)
            return
        except FedgraftError as error:
            error.args = (f"{self._called(job)}: {error}", *error.args[1:])
            raise
        self.ran += 1
        self.spent += cell["operations"]
        outcome = cell.get("refused") or f"{cell['validation']:.4f} on validation"
        self.say(f"{self._called(job)}: {outcome}, in {human_seconds(cell['job_seconds'])}; {self._left}")

    def _note_stopped(self, job: Trial, error: StoppedError) -> None:
        self.spent += error.spent
        self.skipped[job] = error.limit
        if error.needed and job.kind == TOGETHER:
            self.heavy[job.name] = error.needed
        would = f"; it would take {human_operations(error.needed)}" if error.needed else ""
        self.say(f"{self._called(job)}: stopped for {error.limit}{would}, {self._left}")

    def _expected(self, job: Trial) -> float:
        """Return about how many operations a job takes, by those that were done; 0 where nothing is known."""
        alike = [cell["operations"] for other, cell in self.cells.done.items() if other.row == job.row]
        if alike:
            return float(mean(alike))
        runs = [cell for other, cell in self.cells.done.items() if other.candidate == job.candidate and "curve" in cell]
        if job.baseline == LOCAL and runs:  # every client trains in every round
            run = runs[0]
            rounds = self.question.experiment(job.candidate, job.seed).stopping.rounds
            return float(run["operations"] / max(1, run["selections"]) * run["clients"] * rounds)
        return 0.0

    @property
    def _left(self) -> str:
        """The operations that are left, in words."""
        left = self.limit.operations - self.spent
        return f"{human_operations(left)} left" if left > 0 else "no work is left"

    def _called(self, job: Trial) -> str:
        return f"{job.name}, {job.kind}, seed {job.seed}"


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
