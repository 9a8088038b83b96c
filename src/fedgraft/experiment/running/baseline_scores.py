"""What a person would try first, scored on the very split of an experiment; computed once per split and kept.

Most baselines are files of their own. Three train the experiment's own model, so they are made of the loop itself:
`local_only` (every client alone, zero bytes), `centralised` (all data in one place, which no federation allows) and
`centralised_cut` (there, without edges between clients: what the cut costs, and what federated training does).
Every run is told two figures beside its own: what its clients reach alone, where that is quickly found out, and what
sending all their data once would cost.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fedgraft.contracts import RuntimeOptions, Sums
from fedgraft.contracts.abilities.pooling import PooledTask
from fedgraft.contracts.abilities.tasks import HaloTask
from fedgraft.contracts.labels import LabelledTask
from fedgraft.contracts.scores import add
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.loop.stopping import Evaluation, Stopping
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import FedgraftError, InputError
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes.discovery import find
from fedgraft.experiment.recipes.sections import STAGES, Settings
from fedgraft.experiment.recipes.task_sections import TRAINED_BASELINES
from fedgraft.experiment.running.loops import running
from fedgraft.experiment.running.raw_data import entry, remembered
from fedgraft.experiment.storage.provenance import digest_of
from fedgraft.runtimes.processes import Processes

STAGE = logging.getLogger("fedgraft.stage")
"""Told what is done before the first round and after the last one; progress shows it."""
STAGE.propagate = False

Scores = dict[str, float]

LOCAL_ONLY, CENTRALISED = "local_only", "centralised"
MOST_ALONE_SECONDS: Final = 60.0
"""What training each client alone may take, as estimated, for a run that has not asked for it."""
RATE: Final = 1e10
"""Operations in a second that the estimate counts on; a core of today does twice as many where layers are wide."""
ROUND_SECONDS, STEP_SECONDS = 0.01, 0.002
"""What it adds for a client's round and for each of its steps, whatever they compute."""


def scores(experiment: Job, shards: Sequence[Any], names: Iterable[str] | None = None) -> dict[str, Scores]:
    """{baseline: {"validation": score, "test": score, measure: on test}} for the experiment's, or for `names`.

    None where a sample is scored of clients whose data are parts of one graph: a few parts of it are no graph.
    """
    if experiment.settings.evaluation.sample and experiment.plan.task.ability(HaloTask) is not None:
        return {}
    return {name: _kept(experiment, shards, name) for name in (experiment.baselines if names is None else names)}


def local(names: Iterable[str]) -> list[str]:
    """Return those of some baselines for which nothing is sent."""
    return [
        name
        for name in names
        if name == LOCAL_ONLY or (name not in TRAINED_BASELINES and find("baselines", name).local)
    ]


def constant(baselines: Mapping[str, Scores]) -> dict[str, Scores]:
    """Return the scores of those baselines that say the same of everything."""
    return {
        name: scored
        for name, scored in baselines.items()
        if name not in TRAINED_BASELINES and find("baselines", name).constant
    }


def client_alone(experiment: Job, state: RunState, shards: Sequence[Any]) -> Scores | None:
    """Return {"validation": score, "test": score} of the experiment's model where each client trains alone.

    Where the experiment's baselines have it, it is theirs. Else None where it could take long, as `alone_seconds`
    says; where no baselines are asked for, a sample is scored, or a task cannot be trained at one client alone; and
    where a client fails.
    """
    wanted = LOCAL_ONLY in experiment.baselines
    if not _can_be_alone(experiment) or not_tried(experiment, state):
        return None
    try:
        scored = _kept(experiment, shards, LOCAL_ONLY)
    except FedgraftError:
        if wanted:
            raise
        return None
    return {split: scored[split] for split in SCORED_SPLITS}


def not_tried(experiment: Job, state: RunState) -> str:
    """Return a sentence where each client alone is left out for the time that it could take; "" where it is not."""
    if not _can_be_alone(experiment) or LOCAL_ONLY in experiment.baselines:
        return ""
    seconds = alone_seconds(experiment, state)
    if seconds <= MOST_ALONE_SECONDS:
        return ""
    names = ", ".join(f'"{name}"' for name in (*experiment.baselines, LOCAL_ONLY))
    return f"Each client alone was not tried, as it could take {seconds:.0f} s; baselines=[{names}] tries it."


def alone_seconds(experiment: Job, state: RunState) -> float:
    """Return an estimate of what training each client alone takes, from counts alone: the same on every machine.

    Every client trains in every round. That takes as many operations as a client's round of the run did on average,
    `RATE` of them a second, and `ROUND_SECONDS`, and `STEP_SECONDS` for each step that the sampler's options say.
    """
    sampler, selections = experiment.recipe.sections["sampler"], max(1, sum(state.chosen))
    batches, size = sampler.get("batches") or 1, sampler.get("batch_size") or 0
    passes = sum(max(1, round(examples / size)) if size else batches for examples in state.examples)
    steps = experiment.plan.training.epochs * passes
    computing = len(state.examples) * state.flops / selections / RATE
    return experiment.stopping.rounds * (computing + ROUND_SECONDS * len(state.examples) + STEP_SECONDS * steps)


def _can_be_alone(experiment: Job) -> bool:
    """Return whether each client could be trained alone, and baselines are asked for."""
    sampled = bool(experiment.settings.evaluation.sample)
    return bool(experiment.baselines) and not sampled and experiment.plan.task.ability(PooledTask) is not None


def _kept(experiment: Job, shards: Sequence[Any], name: str) -> Scores:
    from threadpoolctl import threadpool_limits

    def score() -> Scores:
        STAGE.info("baseline %s", name)
        try:
            if name in TRAINED_BASELINES:
                return _train(experiment, shards, name)
            with threadpool_limits(1, "blas"):  # whose products are small: more threads wait for each other
                baseline, task = find("baselines", name)(), experiment.plan.task
                judged = getattr(task, "judged", "")
                by = task.labels if isinstance(task, LabelledTask) else task.metric
                scored: Scores = baseline.judged(shards, by) if judged else baseline.score(shards)
                return scored
        except FedgraftError as error:
            raise FedgraftError(f"The baseline {name!r} could not be computed. {error}") from error

    return remembered(entry(_key(experiment, shards, name)), score)


def _train(experiment: Job, shards: Sequence[Any], name: str) -> Scores:
    task = experiment.plan.task
    if (pooling := task.ability(PooledTask)) is None:
        raise InputError(f"Task {type(task).__name__} cannot be trained in one place or by each client alone.")
    if name == LOCAL_ONLY:
        groups = [[pooling.alone(shard)] for shard in shards]
    else:
        groups = [[pooling.pooled(shards) if name == CENTRALISED else pooling.side_by_side(shards)]]
    sums = [_sums(experiment, group) for group in groups]
    added = {split: add(part[split] for part in sums) for split in SCORED_SPLITS}
    measures = experiment.plan.task.measured(added)["test"]
    return {
        **experiment.plan.task.scores(added),
        **{name: value for name, value in measures.items() if name != task.metric},
    }


def _sums(experiment: Job, shards: Sequence[Any]) -> dict[str, Sums]:
    """Train alone for as many rounds, scored with the round that is best on the own validation split."""
    with running(alone(experiment), shards) as (loop, _):
        state = loop.run(loop.start(), lambda state, row: None)
        loop.smooth(state)
    best: dict[str, Sums] = state.best["sums"]
    return best


def alone(experiment: Job, every: int = 1) -> Job:
    """Return an experiment of as many rounds that trains without others, scored in every so many rounds.

    Nothing is sent, so nothing is lost on the way.
    """
    return replace(
        experiment,
        plan=sending_nothing(experiment.plan),
        selector=find("selectors", "all")(),
        aggregation=find("aggregation", "mean")(),
        server_optimizer=None,
        stopping=Stopping(rounds=experiment.stopping.rounds),
        settings=Settings(evaluation=Evaluation(averaging=experiment.settings.evaluation.averaging, every=every)),
        runtime=local_runtime(experiment.runtime),
    ).after(agreement={}, matching={})


def local_runtime(options: RuntimeOptions) -> RuntimeOptions:
    """Return a runtime in this process: one client at a time keeps no second one busy, and a new one takes seconds."""
    return Processes(options.threads, options.device, portable=options.portable, workers=0)


def sending_nothing(plan: Plan) -> Plan:
    """Return a plan whose messages stay in this process: no reports, and no codec that loses anything."""
    identity = find("codecs", "identity")()
    alone = replace(plan, reports=frozenset(), secure_sum=Settings().secure_sum, privacy=Settings().privacy)
    return replace(alone, uplink=identity, downlink=identity, rows=identity)


def _key(experiment: Job, shards: Sequence[Any], name: str) -> str:
    """A fingerprint of the split, of the baseline, and of the model and training where it trains those."""
    state = hashlib.blake2b(digest_size=16)
    state.update(f"2:{name}".encode())  # the first number changes when a baseline's meaning does
    if name in TRAINED_BASELINES:
        used = ("task", *STAGES, "sampler", "sharing", "training", "rounds", "seed")
        state.update(f"averaging {experiment.settings.evaluation.averaging};".encode())
        state.update(json.dumps({key: experiment.recipe.sections.get(key) for key in used}, sort_keys=True).encode())
    task = experiment.plan.task
    if getattr(task, "judged", ""):
        by = task.labels if isinstance(task, LabelledTask) else task.metric
        state.update(f"judged {by!r};".encode())
    state.update(digest_of(shards).encode())
    return state.hexdigest()
