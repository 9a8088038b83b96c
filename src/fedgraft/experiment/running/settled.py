"""Settle a job with its data, here or at sites, before anything of it is run.

A federation's server keeps its secret in its run's folder: what it draws must not follow from the public seed.
"""

import json
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from fedgraft.contracts import Runtime
from fedgraft.contracts.data import Shards
from fedgraft.errors import InputError, require
from fedgraft.experiment.carried_over import content_of, joined, rows_of
from fedgraft.experiment.job import Job
from fedgraft.experiment.policies import require_allowed
from fedgraft.experiment.running.baseline_scores import STAGE
from fedgraft.experiment.running.recorder import Sites
from fedgraft.experiment.running.remarks import stale_scores
from fedgraft.experiment.running.warm_start import Start
from fedgraft.experiment.storage import disk
from fedgraft.experiment.storage.folder_check import FEDERATION, RUN, SECRET
from fedgraft.experiment.storage.matching import matched_here
from fedgraft.experiment.storage.outside_classes import given_network, note_made
from fedgraft.experiment.storage.provenance import SPENT, Origin, check_clients, environment, origin_of
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.wire.layouts import digest

LOG = logging.getLogger("fedgraft.experiment.running.runner")
VERY_MANY = 5_000
"""Clients from which on a note says what it takes to score all."""


class Remote(NamedTuple):
    """Where clients are that are not here, the runtime to which they have connected, and the server's secret."""

    sites: Sites
    runtime: Runtime
    root: bytes


@dataclass(frozen=True)
class Settled:
    """A job that is ready to run.

    Args:
        job: fitted to its data.
        shards: all clients' data, or of clients at sites their names and fingerprints.
        began: what the run began with, as `origin.json` holds it.
        remote: where clients are; None for here.
        about: what else `environment.json` is to say, such as of which federation the run is.
        start: the model that it begins with; None for a drawn one.
    """

    job: Job
    shards: Sequence[Any]
    began: Origin = field(default_factory=dict)
    remote: Remote | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    start: Start | None = None

    @property
    def fingerprints(self) -> Callable[[Mapping[int, bytes]], dict[int, bytes]]:
        """The function from what clients remember to {client: its fingerprint}."""
        return self.remote.sites.fingerprints if self.remote else self.job.runtime.fingerprints


@contextmanager
def settled_here(experiment: Job, start: Start | None) -> Iterator[Settled]:
    """Enter with clients' data, loaded; `start` is the model to begin with, None draws one."""
    STAGE.info("loading data")
    experiment = matched_here((experiment if start is None else start.reading(experiment)).agreed())
    shards = experiment.shards()
    if isinstance(shards, Shards) and len(shards) >= VERY_MANY and not experiment.settings.evaluation.sample:
        LOG.warning(
            f"Each scoring makes the data of all {len(shards):,} clients, and baselines need all at once; "
            "evaluation.sample=100 scores a hundred clients, the same ones in every round."
        )
    experiment = experiment.fitted(shards)
    if stale := stale_scores(experiment.selector, experiment.plan.sampler, experiment.settings.evaluation.every):
        LOG.warning(stale)
    if experiment.plan.policy.limits:
        require_allowed(experiment, experiment.plan.policy, "Section [policy]")
    began = origin_of(experiment.recipe.sections, shards, experiment.plan.task)
    if start is not None:
        experiment = start.begin(experiment, began, shards)
    yield Settled(experiment, shards, began, start=start)


@contextmanager
def settled_at(sites: Sites, experiment: Job, run_folder: RunFolder) -> Iterator[Settled]:
    """Enter once the clients at sites have joined a new run."""
    if given_network(experiment.recipe.sections):
        raise InputError(
            "model is a network that was given as an instance, which the nodes of a federation do not have; "
            'give its class and options: model={"name": "package.module:Class", ...}.'
        )
    run = secrets.token_hex(16)
    with sites.joined(experiment, run) as (experiment, runtime, clients):
        experiment = experiment.among(len(clients))
        remote = Remote(sites, runtime, make_root(run_folder.folder, experiment))
        began, about = origin_of(experiment.recipe.sections, clients), {RUN: run, FEDERATION: sites.where}
        yield Settled(experiment.at_sites(), clients, began, remote, about)


@contextmanager
def settled_again(
    experiment: Job, run_folder: RunFolder, began: Origin, where: str, sites: Sites | None
) -> Iterator[Settled]:
    """Enter with the clients of a run that is taken up; `where` names its recipe or state, for errors."""
    if sites is None:
        STAGE.info("loading data")
        shards = experiment.shards()
        check_clients(began, shards, where)
        yield Settled(experiment, shards, began)
        return
    count = len(began["clients"])
    with sites.joined(experiment, run_folder.environment()[RUN], count) as (experiment, runtime, clients):
        check_clients(began, clients, where)
        root = root_in(run_folder.folder, experiment)
        yield Settled(experiment.at_sites(), clients, began, Remote(sites, runtime, root))


def describe(run_folder: RunFolder, settled: Settled) -> None:
    """Make a folder a run's: what is run, on which versions and machine, and what it begins with."""
    job, sections = settled.job, settled.job.recipe.sections
    is_parted = settled.remote is None and job.split_seed is not None
    seen = content_of(rows_of(settled.shards, job.begins.seen)) if is_parted else b""
    about, began, first = {**environment(), **settled.about}, settled.began, joined(job.plan.start, job.begins.own)
    if settled.start is not None:
        spent = {SPENT: json.dumps(dict(job.begins.spent))} if job.begins.spent else {}
        began = {**began, "start": {"model": digest(first), "run": str(settled.start.folder.resolve()), **spent}}
    run_folder.describe(job.to_toml(), about, began, first, given_network(sections), seen)
    note_made(sections)


_BYTES: Final = 32


def make_root(folder: Path, experiment: Job) -> bytes:
    """Put a new secret into a new run's folder, for its owner alone; b"" where the server draws from none."""
    if not _needed(experiment):
        return b""
    root = secrets.token_bytes(_BYTES)
    with disk.written(folder):
        disk.replace(folder, {SECRET: root}, disk.PRIVATE)
    return root


def root_in(folder: Path, experiment: Job) -> bytes:
    """Return the secret; b"" where nothing is drawn from it.

    Raises `InputError` where it is gone: with another one, a round that is made again would have other noise.
    """
    if not _needed(experiment):
        return b""
    root = disk.read_bytes(folder / SECRET)
    require(len(root) == _BYTES, f"The secret in {folder / SECRET}", f"{_BYTES} bytes", f"{len(root)} bytes")
    return root


def _needed(experiment: Job) -> bool:
    return experiment.plan.privacy.central or experiment.selector.by_coins
