"""The experiments that advice is made of, and the jobs that score them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fedgraft.errors import InputError, require
from fedgraft.experiment.experiment import Experiment, build
from fedgraft.experiment.recipes.data_tasks import task_of
from fedgraft.experiment.recipes.recipe import override, read_recipe
from fedgraft.experiment.recipes.sections import STAGES, Section
from fedgraft.experiment.recipes.units import parse_bytes
from fedgraft.experiment.storage.provenance import digest_of
from fedgraft.reports.advising.candidates import LOCAL, Candidate, Choice, choice_of
from fedgraft.reports.advising.sources import section_of

TOGETHER, ALONE, ONE_PLACE = "together", "alone", "one place"
"""Kinds of rows: federated, by each client alone, with all data in one place."""
UNUSED = ("description", "runtime", "checkpoint")
"""Sections that no score depends on."""
TRAINED = ("data", "task", *STAGES, "sampler", "sharing", "training", "rounds", "evaluation")
"""Sections that a model which clients train alone depends on."""
FORMAT = 2
"""Of what a finished cell holds; those of another are run again."""
LEAST_SEEDS = 2
"""Fewer say nothing of how much scores vary."""


@dataclass(frozen=True)
class Job:
    """A score to find, with one seed of data and training, for the row of this kind and name.

    `yardstick` is what is computed, "" for a federated run, and `candidate` whose experiment it is or whose model is
    trained.
    """

    kind: str
    name: str
    seed: int
    yardstick: str
    candidate: Candidate

    @property
    def row(self) -> tuple[str, str]:
        """Kind and name."""
        return self.kind, self.name


@dataclass(frozen=True)
class Question:
    """What the user asks.

    Args:
        data: the section [data].
        changes: other overrides of every experiment.
        budget: bytes that a run may send; 0 = no limit.
        seeds: paired seeds, at least 2.
        agreed: whether recipes are tried that the user must agree to.
    """

    data: Section
    changes: Mapping[str, Any]
    budget: int
    seeds: tuple[int, ...]
    agreed: bool = False
    _loaded: dict[int, Sequence[Any]] = field(default_factory=dict, repr=False)
    _digests: dict[int, str] = field(default_factory=dict, repr=False)
    _clients: dict[int, int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, data: str, budget: str, overrides: Mapping[str, Any], seeds: int, agreed: bool) -> "Question":
        """Return the question that a command line asks. Raises `InputError` for whatever is wrong with it."""
        require(seeds >= LEAST_SEEDS, "--seeds", f"at least {LEAST_SEEDS}", seeds)
        options = {key.removeprefix("data."): value for key, value in overrides.items() if key.startswith("data.")}
        rest = {key: value for key, value in overrides.items() if not key.startswith("data.")}
        first, limit = rest.pop("seed", 1), rest.pop("budget.bytes", 0)
        require(isinstance(first, int) and first >= 0, "seed", "a whole number >= 0", first)
        size = parse_bytes(budget or limit, "BUDGET")
        return cls(section_of(data, options), rest, size, tuple(range(first, first + seeds)), agreed)

    @cached_property
    def task(self) -> str:
        """Name of the task that the data are for, or of another that they can be made for and the user names."""
        named = {"name": self.changes["task.name"]} if "task.name" in self.changes else {}
        return task_of({"data": self.data, "task": named})[0]

    @cached_property
    def choice(self) -> Choice:
        """The task's list; of recipes those that these data and overrides fit.

        Raises `InputError` where none does.
        """
        listed, fitting, errors = choice_of(self.task, self.agreed), [], []
        for candidate in listed.recipes:
            try:
                self.experiment(candidate, self.seeds[0])
                fitting.append(candidate)
            except InputError as error:
                errors.append(error)
        if not fitting:
            raise errors[0]
        return Choice(tuple(fitting), listed.alone, listed.central)

    def experiment(self, candidate: Candidate, seed: int, yardsticks: bool = False) -> Experiment:
        """Return a candidate's experiment on the data, within the budget; `yardsticks`: whether with its own.

        A recipe that chooses more clients than there are chooses all of them, unless the user says how many.
        """
        content = override(read_recipe(candidate.recipe)[1], {"data.name": self.data["name"]})
        content["data"] = dict(self.data)
        changes = {**candidate.changes, **self.changes, **candidate.fixed, "seed": seed, "budget.bytes": self.budget}
        if not yardsticks:
            changes["yardsticks"] = []
        content = override(content, changes)
        selector, clients = content.get("selector"), self._clients.get(seed)
        if clients and isinstance(selector, dict) and "selector.clients" not in self.changes:
            content["selector"] = {
                key: min(value, clients) if key == "clients" else value for key, value in selector.items()
            }
        return build(candidate.recipe, content)

    def shards(self, seed: int) -> Sequence[Any]:
        """Return the clients' data; those of one seed are kept. Raises `InputError` for fewer than two clients."""
        if seed not in self._loaded:
            self._loaded.clear()
            shards = self.experiment(self.choice.recipes[0], seed).shards()
            if len(shards) < LEAST_SEEDS:
                raise InputError(
                    "These data are of one client, so there is nothing to federate: say how many hold them with "
                    "data.clients=N, or name the client of each row in a column."
                )
            self._loaded[seed], self._clients[seed] = shards, len(shards)
            self._digests[seed] = digest_of(shards)
        return self._loaded[seed]

    def settings(self, job: Job) -> dict[str, Any]:
        """Return what a job's score depends on, as JSON has it."""
        if job.seed not in self._digests:
            self.shards(job.seed)
        used: dict[str, Any] = {
            "format": FORMAT,
            "yardstick": job.yardstick,
            "data": self._digests[job.seed],
            "seed": job.seed,
        }
        if job.yardstick in ("", LOCAL):
            sections = self.experiment(job.candidate, job.seed).sections
            wanted = TRAINED if job.yardstick else [name for name in sections if name not in UNUSED]
            used["sections"] = {name: sections[name] for name in wanted if name in sections}
        settings: dict[str, Any] = json.loads(json.dumps(used, default=str))
        return settings


def key_of(job: Job, settings: Mapping[str, Any]) -> str:
    """Return a job's name as a file's: of other settings, another."""
    plain = "".join(letter if letter.isalnum() or letter == "_" else "-" for letter in job.name).replace("--", "-")
    code = hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=4).hexdigest()
    return f"{job.kind.replace(' ', '-')}-{plain}-seed{job.seed}-{code}"
