"""The result of a run: what `summary.json` and `model.safetensors` hold, and the digest of all that was learnt."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any, Final

import numpy as np

from fedgraft.contracts.data import names_of
from fedgraft.contracts.labels import LabelledTask
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.clock import DISCONNECTED
from fedgraft.engine.server.rounds.next_round import scored_model
from fedgraft.engine.server.run_state import AFTER_STEPS, RunState
from fedgraft.errors import AllClientsFailedError, InputError
from fedgraft.experiment.claims import claim_of
from fedgraft.experiment.job import Job
from fedgraft.experiment.running import baseline_scores
from fedgraft.experiment.running.raw_data import described, raw_data
from fedgraft.experiment.running.remarks import remarks, stale_scores, survival
from fedgraft.experiment.storage.outside_classes import stored_experiment
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.wire.layouts import Arrays, digest

LOG = logging.getLogger("fedgraft.data")
STOPPED: Final = "stopped"
"""What ended a run that has a checkpoint alone, as its summary says."""
LAST = "The model of the last round is kept: to choose by validation would tell more than the claim covers."
SEEN = "Scores are the experimenter's, who has all data here: in the protocol none leaves a client."
UNSEEN = "No score has left a site: each can hold its own model against its own data."
CURVE = ("round", "bytes", "seconds", "validation", "test", "flops", "simulated_seconds")
"""What each point of a summary's curve holds, in order."""

EARLIER = {
    "yardsticks": "baselines",
    "local_yardsticks": "local_baselines",
    "decision": "threshold",
    "decisions": "thresholds",
}
"""{earlier name of a key: its name now}; a summary is written with both."""


def summarise(
    experiment: Job, state: RunState, shards: Sequence[Any], fingerprints: Mapping[int, bytes], here: bool = True
) -> dict[str, Any]:
    """The summary of a run: what `summary.json` holds and `--json` prints.

    Where clients' data are not `here` but at nodes of a federation, `shards` tell their names alone. "scored" is the
    size of the sample of clients that scores are of, 0 where they are of all; "test_per_client" then holds the clients
    of the sample, and baselines see their data alone. It, "test_plain_mean" and "measures" are of the models that the
    run keeps, as "test_at_best_validation" is; "validation" and "test" are of the last round. Where clients keep models
    of their own, the digest covers the fingerprints of what they remember as well, but at sites, which keep these to
    themselves. A score that lacks clients, and the test score of a client that could not be scored, are None. Raises
    `AllClientsFailedError` where no client ever trained, or no sum of updates was ever had: there is no result.
    """
    _check_answered(experiment.plan, state)
    last, kept = state.curve[-1], state.kept_scores(experiment.plan.personal)
    names, scored = names_of(shards), experiment.settings.evaluation.scored(state.joined, experiment.seed)
    sampled = len(scored) < len(state.joined)
    by_client = {
        names[client]: _number(kept.get(str(client), {}).get("test"))
        for client in (scored if sampled else range(len(shards)))
    }
    known = [score for score in by_client.values() if score is not None] if state.best["sums"] else []
    baselines = baseline_scores.scores(experiment, [shards[client] for client in scored] if sampled else shards)
    alone = baseline_scores.client_alone(experiment, state, shards) if here else None
    made = {
        "recipe": experiment.recipe.name,
        "dataset": experiment.recipe.sections["data"]["name"],
        "clients": len(shards),
        "scored": len(scored) if sampled else 0,
        "seed": experiment.seed,
        "rounds": state.round,
        "stopped_by": state.finished,
        "metric": experiment.plan.task.metric,
        "better": experiment.plan.task.better,
        **{split: _number(last[split]) for split in SCORED_SPLITS},
        "test_at_best_validation": _number(state.best.get("test")),
        "measures": _measures(experiment.plan, state),
        **_decision(experiment.plan, state),
        "remarks": _remarks(experiment, state, baselines, here),
        "test_per_client": by_client,
        "test_plain_mean": mean(known) if known else None,
        "bytes": {"total": state.bytes["down"] + state.bytes["up"], **state.bytes},
        "seconds": state.seconds,
        "simulated_seconds": state.simulated_seconds,
        "flops": state.flops or None,
        **_smoothing(experiment.plan, state.smoothed),
        **_after_steps(experiment.plan, state, names),
        **_privacy(experiment, len(shards), here),
        "selections": sum(state.clients.chosen),
        "failures": state.clients.failures,
        "survives": _survives(experiment, state),
        "digest": _digest(experiment.plan, state, fingerprints),
        "curve": [[_number(point[key]) for key in CURVE] for point in state.curve],
        "baselines": _numbers({name: values["test"] for name, values in baselines.items()}),
        "local_baselines": baseline_scores.local(baselines),
        "data": described(shards) if here else None,
        "raw_data_bytes": raw_data(shards) if here else None,
        "client_alone": None if alone is None else _numbers(alone),
    }
    return made | {earlier: made[name] for earlier, name in EARLIER.items() if name in made}


def _remarks(
    experiment: Job, state: RunState, baselines: Mapping[str, baseline_scores.Scores], here: bool
) -> list[str]:
    """Sentences about what is kept, and what it is not held against."""
    said = remarks(experiment.plan, state, baseline_scores.constant(baselines))
    missing = baseline_scores.not_tried(experiment, state) if here else ""
    survived = survival(experiment.recipe.sections["aggregation"]["name"], _survives(experiment, state))
    last = LAST if experiment.plan.collection.claims else ""
    home = (SEEN if here else UNSEEN) if experiment.plan.at_home else ""
    stale = stale_scores(experiment.selector, experiment.plan.sampler, experiment.settings.evaluation.every)
    return [*said, *(each for each in (survived, missing, last, home, stale) if each)]


def _survives(experiment: Job, state: RunState) -> dict[str, int] | None:
    """{"liars": how many the aggregation rule survives among "clients", the fewest that were merged at a time}.

    None where no updates were merged.
    """
    fewest = state.merging.fewest
    return {"clients": fewest, "liars": experiment.aggregation.survives(fewest)} if fewest else None


def _decision(plan: Plan, state: RunState) -> dict[str, Any]:
    """How the model that was best on validation tells one of two classes, of each label, if it is not the likeliest."""
    task, sums = plan.task, state.best.get("sums", {})
    if not isinstance(task, LabelledTask) or not sums:
        return {}
    told = {"threshold": task.labels.decision_threshold(sums), "thresholds": task.labels.decision_thresholds(sums)}
    return {name: value for name, value in told.items() if value}


def _smoothing(plan: Plan, smoothed: Mapping[str, Any]) -> dict[str, Any]:
    """What smoothing chose and brought, where it is done."""
    if not smoothed or plan.smoothing is None:
        return {}
    before, kept = _numbers(smoothed["before"]), {name: smoothed[name] for name in ("choice", "failed")}
    return {"smoothing": {**kept, "way": plan.smoothing.choice_text(smoothed["choice"]), "before": before}}


def _after_steps(plan: Plan, state: RunState, names: Sequence[str]) -> dict[str, Any]:
    """{"after_local_steps": what comes of clients' models after them}, where local steps are scored.

    "round", "validation", "test", "measures" and "test_per_client" are of the round that is best on validation after
    them; "curve" is {split: [a score for each point of the curve]}.
    """
    if not plan.local_steps:
        return {}
    best = state.best_after_steps
    scores = best.get("scores", {})
    by_client = {
        name: _number(scores[str(client)]["test"]) for client, name in enumerate(names) if str(client) in scores
    }
    told = {
        "round": best.get("round"),
        **{split: _number(best.get(split)) for split in SCORED_SPLITS},
        "measures": {split: _numbers(each) for split, each in plan.task.measured(best.get("sums", {})).items()},
        "test_per_client": by_client,
        "curve": {
            split: [_number(point[name]) for point in state.curve]
            for split, name in zip(SCORED_SPLITS, AFTER_STEPS, strict=True)
        },
    }
    return {"after_local_steps": told}


def _privacy(experiment: Job, clients: int, here: bool) -> dict[str, Any]:
    """{"privacy": what is claimed}, where sums hold noise."""
    claim = claim_of(experiment, clients, here)
    return {"privacy": claim} if claim else {}


def _check_answered(plan: Plan, state: RunState) -> None:
    adds = plan.sum_coding is not None
    if state.round and not state.merges and (adds or not state.clients.answered):
        usual = f"no round had a sum of {plan.collection.least} clients" if adds else DISCONNECTED
        chosen = [client for client, times in enumerate(state.clients.chosen) if times]
        reasons = {client: state.clients.failing.get(str(client), usual) for client in chosen}
        raise AllClientsFailedError(state.round, reasons)


def _measures(plan: Plan, state: RunState) -> dict[str, dict[str, float | None]]:
    """Every measure of the model that was best on validation, by split."""
    sums = state.best.get("sums", {})
    return {split: _numbers(measures) for split, measures in plan.task.measured(sums).items()}


def _digest(plan: Plan, state: RunState, fingerprints: Mapping[int, bytes]) -> str:
    """The digest of all that was learnt: the trained and the scored parameters of every group, and own models."""
    models: Arrays = {}
    for group in plan.groups(state.sharing, range(len(state.profiles))):
        trained = plan.sharing.model(state.sharing, group)
        scored = scored_model(plan, state.sharing, state.merging.averages, group)
        models |= {f"model/{group}/{name}": array for name, array in trained.items()}
        models |= {f"evaluated/{group}/{name}": array for name, array in scored.items()}
    if plan.personal or plan.smoothing:
        models.update({f"client/{client}": np.frombuffer(memory, np.uint8) for client, memory in fingerprints.items()})
    return digest(models)


def _numbers(values: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers that JSON can hold."""
    return {name: _number(value) for name, value in values.items()}


def _number(value: float | None) -> float | None:
    """A number that JSON can hold."""
    return None if value is None or not math.isfinite(value) else value


@dataclass(frozen=True)
class _Named:
    """A client of which no more is known here."""

    name: str


def stopped_summary(run_folder: RunFolder) -> dict[str, Any] | None:
    """Return the summary of a run that has not finished, without baselines; None where nothing is stored yet.

    No data are loaded. A note says that there is more to come.
    """
    stored = run_folder.load() if run_folder.has_checkpoint else None
    if stored is None or not stored[0].round:
        return None
    state, memories = stored
    names = list(run_folder.origin()["clients"])
    if len(names) != len(state.profiles):
        names = [str(number) for number in range(len(state.profiles))]
    experiment = replace(stored_experiment(run_folder), baselines=())
    fingerprints = experiment.runtime.fingerprints(memories)
    LOG.warning(
        f"{run_folder.folder} has not finished: this is what it came to after round {state.round}; 'fedgraft resume "
        f"{run_folder.folder}' goes on."
    )
    summary = summarise(experiment, state, [_Named(name) for name in names], fingerprints, here=False)
    return {**summary, "stopped_by": STOPPED}


def best_so_far(run_folder: RunFolder) -> Arrays:
    """Return the shared parameters that did best until the last checkpoint. Raises `InputError` where there is none."""
    stored = run_folder.load()
    if stored is None:
        raise InputError(
            f"{run_folder.folder} has no checkpoint; finish the run with 'fedgraft resume {run_folder.folder}'."
        )
    return stored[0].best_model
