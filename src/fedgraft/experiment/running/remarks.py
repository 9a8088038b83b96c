"""What a person should know of a run's result: the untrained model was kept, or the score is what a constant has."""

import math
from collections.abc import Mapping
from typing import Any

from fedgraft.contracts import Sums
from fedgraft.contracts.task import Chance
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.run_state import RunState
from fedgraft.experiment.recipes.recipe import DEFAULT_NAMES

NO_BETTER = 0.02
"""By how much at least a model that has learnt is above chance, as a share of what is between chance and 1, of an error
half of it, which is about as much of its square; ours."""
MOST = 0.5
"""The most that this may be of chance itself: of a class of one in a thousand twice its share is a find; ours."""


def remarks(plan: Plan, state: RunState, constants: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return sentences about what was kept, none where all is well.

    `constants` are {baseline: {split: score}}, of those that say the same of everything and were scored.
    """
    sums = state.best.get("sums", {})
    if count := _of_one_class(sums.get("validation", {})):
        return [
            f"All {count} validation examples are of one class: the score means nothing. At least two classes are "
            "needed; see which column data.label names."
        ]
    said = [_kept(plan, state, sums.get("validation", {}), constants)]
    if count := _of_one_class(sums.get("test", {})):
        said.append(f"All {count} test examples are of one class: the score on test means nothing.")
    return [each for each in said if each]


def stale_scores(selector: Any, sampler: Any, every: int) -> str:
    """Return a sentence about who learns from scores that are not of the last round; "" where nobody does."""
    learners = [type(each).__name__ for each in (selector, sampler) if getattr(each, "learns_from_scores", False)]
    if every == 1 or not learners:
        return ""
    return (
        f"{' and '.join(learners)} learn{'s' * (len(learners) == 1)} from the score after each round, and with "
        f"evaluation.every = {every} most rounds have that of an earlier one: evaluation.every = 1."
    )


def survival(rule: str, survives: Mapping[str, int] | None) -> str:
    """Return a sentence about how many "liars" among "clients" a rule survives; "" for the mean, which is none."""
    if survives is None or rule == DEFAULT_NAMES["aggregation"]:
        return ""
    liars, clients = survives["liars"], survives["clients"]
    return (
        f"aggregation {rule} survives {liars or 'no'} liar{'s' * (liars > 1)} among {clients} client"
        f"{'s' * (clients > 1)}, the fewest whose updates were merged at a time."
    )


def _kept(plan: Plan, state: RunState, sums: Sums, constants: Mapping[str, Mapping[str, float]]) -> str:
    """Say that the kept model is the first one, or no better than what needs none."""
    if math.isnan(state.best.get("validation", math.nan)):
        return ""
    chance = _at_chance(plan, state, sums, constants)
    if state.best["round"] == 0 and state.round:
        return _untrained(plan, state, chance)
    return f"The score is at chance: {chance}." if chance else ""


def _untrained(plan: Plan, state: RunState, chance: str) -> str:
    """Say that no round was better than none."""
    task, rounds = plan.task, f"{state.round} round{'s' * (state.round > 1)}"
    known, judged = getattr(task, "metrics", ()), task.metric
    more = "evaluation.metric=average_precision (or macro_f1), " if judged == "accuracy" and "macro_f1" in known else ""
    weights = getattr(task, "tells_classes", True) and not getattr(
        getattr(task, "objective", None), "class_weights", "none"
    )
    adjusted = getattr(getattr(task, "objective", None), "logit_adjustment", 0.0)
    instead = " with loss.logit_adjustment=0" if adjusted else ""
    rare = f", or loss.class_weights=balanced{instead} where a class is rare" if weights else ""
    model = "model that the run began with" if plan.start else "untrained model"
    return (
        f"The {model} is kept: {judged} on validation was best in round 0, and none of {rounds} was better"
        f"{f'; it is at chance: {chance}' if chance else ''}. "
        f"Try {more}more rounds, another training.learning_rate{rare}."
    )


def _of_one_class(sums: Sums) -> int:
    """Return how many examples there are, where all are of one class; 0 where they are not, or sums do not tell."""
    classes = [name for name in sums if name.startswith("true_") and sums[name]]
    return int(sums.get("count", 0)) if len(classes) == 1 else 0


def _at_chance(plan: Plan, state: RunState, sums: Sums, constants: Mapping[str, Mapping[str, float]]) -> str:
    """Say what has as good a score as the kept model without being one; "" where nothing has."""
    task, score = plan.task, float(state.best["validation"])
    if (chance := task.chance(sums)) is not None:
        if chance.measure != task.metric:
            score = task.measured({"validation": sums})["validation"][chance.measure]
        said = f"{chance.measure} {score:.4f} on validation, where {chance.what} has {chance.value:.4f}"
        return said if _no_better(score, chance, task.better) else ""
    for name, scores in constants.items():
        value = scores.get("validation", math.nan)
        if (score <= value) if task.better == "higher" else (score >= value):
            return f"{task.metric} {score:.4f} on validation, where the baseline {name} has {value:.4f}"
    return ""


def _no_better(score: float, chance: Chance, better: str) -> bool:
    if better == "lower":
        return score >= chance.value * (1 - NO_BETTER / 2)
    margin = NO_BETTER * (1 - chance.value)
    return score <= chance.value + (min(margin, MOST * chance.value) if chance.value else margin)
