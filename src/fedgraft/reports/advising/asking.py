"""In which order jobs are done, and which are started in the time that is left."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import mean

from fedgraft.errors import FedgraftError
from fedgraft.experiment.recipes.units import human_seconds
from fedgraft.reports.advising.candidates import LOCAL, Candidate
from fedgraft.reports.advising.cells import Cells
from fedgraft.reports.advising.following import TooSlowError
from fedgraft.reports.advising.questions import ALONE, LEAST_SEEDS, ONE_PLACE, TOGETHER, Job, Question


@dataclass
class Asking:
    """Asks a question: does its jobs, the most telling first, the last one to end within `seconds`.

    With two seeds the first recipe and its model trained alone, then the other recipes, the best one's model trained
    alone, and what one place could do; then the same with the other seeds, the best recipe first.
    """

    question: Question
    cells: Cells
    seconds: float
    say: Callable[[str], None]
    slow: dict[str, float] = field(default_factory=dict)
    """{recipe: seconds that a run of it would take}, of those that would take too long."""
    skipped: list[Job] = field(default_factory=list)
    """Jobs for which no time was left."""
    ran: int = 0
    """Jobs that were not done before."""

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self.seconds

    def ask(self) -> None:
        """Do every job that there is time for."""
        for job in self._jobs():
            if job not in self.skipped and self.cells.find(job) is None:
                self._do(job)

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

    def _scores(self, candidate: Candidate) -> dict[int, float]:
        cells = {job.seed: cell for job, cell in self.cells.done.items() if job.row == (TOGETHER, candidate.name)}
        return {seed: cell["validation"] for seed, cell in cells.items() if "refused" not in cell}

    def _jobs(self) -> Iterator[Job]:
        seeds, any_model = self.question.seeds, self.question.choice.recipes[0]
        for group in (seeds[:LEAST_SEEDS], seeds[LEAST_SEEDS:]):
            for seed in group:
                for alone in self.question.choice.alone:
                    yield Job(ALONE, alone.name, seed, alone.name, any_model)
            leader = self.leader
            ordered = [*([leader] if leader else []), *(c for c in self.question.choice.recipes if c != leader)]
            for candidate in ordered:
                yield from self._of(candidate, group, candidate == leader)
            if group and self.leader:
                yield from self._trained_alone(self.leader, seeds if group[0] != seeds[0] else group)
            for seed in group:
                for name in self.question.choice.central:
                    yield Job(ONE_PLACE, name, seed, name, any_model)

    def _of(self, candidate: Candidate, seeds: tuple[int, ...], is_best: bool) -> Iterator[Job]:
        """A recipe's runs; beside those of the best so far, and of the first that can be run, its model alone."""
        for seed in seeds:
            run = Job(TOGETHER, candidate.name, seed, "", candidate)
            if candidate.name in self.slow or self._refused(candidate):
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

    def _trained_alone(self, candidate: Candidate, seeds: tuple[int, ...]) -> Iterator[Job]:
        """The candidate's model trained by each client alone; where another's is the same, that one's."""
        own = Job(ALONE, f"{candidate.name}'s model", seeds[0], LOCAL, candidate)
        wanted = self.question.settings(own)["sections"]
        for other in self.question.choice.recipes:
            job = Job(ALONE, f"{other.name}'s model", seeds[0], LOCAL, other)
            if self.question.settings(job)["sections"] == wanted:
                yield from (Job(ALONE, job.name, seed, LOCAL, other) for seed in seeds)
                return

    def _do(self, job: Job) -> None:
        left, expected = self._until - time.monotonic(), self._expected(job)
        if left <= 0 or expected > left:
            self.skipped.append(job)
            self.say(f"{self._called(job)}: not started; it takes about {human_seconds(expected)}, {_left(left)}")
            return
        first = not self._scores(job.candidate)
        try:
            cell = self.cells.run(job, left / LEAST_SEEDS if first else left)
        except TooSlowError as error:
            self.slow[job.name] = error.seconds
            self.skipped.append(job)
            self.say(f"{self._called(job)}: stopped; it would take {human_seconds(error.seconds)}, {_left(left)}")
            return
        except FedgraftError as error:
            error.args = (f"{self._called(job)}: {error}", *error.args[1:])
            raise
        self.ran += 1
        outcome = cell.get("refused") or f"{cell['validation']:.4f} on validation"
        left = self._until - time.monotonic()
        self.say(f"{self._called(job)}: {outcome}, in {human_seconds(cell['job_seconds'])}; {_left(left)}")

    def _expected(self, job: Job) -> float:
        """Return about how many seconds a job takes, by those that were done; 0 where nothing is known."""
        alike = [cell["job_seconds"] for other, cell in self.cells.done.items() if other.row == job.row]
        if alike:
            return float(mean(alike))
        runs = [cell for other, cell in self.cells.done.items() if other.candidate == job.candidate and "curve" in cell]
        if job.yardstick == LOCAL and runs:  # every client trains in every round, one after another
            run = runs[0]
            rounds = self.question.experiment(job.candidate, job.seed).stopping.rounds
            return float(run["seconds"] / max(1, run["selections"]) * run["clients"] * rounds)
        return 0.0

    def _called(self, job: Job) -> str:
        return f"{job.name}, {job.kind}, seed {job.seed}"


def _left(seconds: float) -> str:
    return f"{human_seconds(max(0.0, seconds))} left" if seconds > 0 else "no time is left"
