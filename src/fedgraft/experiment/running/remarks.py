"""What a person should know of a run's result: the untrained model was kept, or the score is what a constant has."""

import math
from collections.abc import Mapping

from fedgraft.contracts import Sums
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.run_state import RunState

NO_BETTER = 0.02
"""By how much at least a model that has learnt is above chance, as a share of what is between chance and 1; ours."""


def remarks(plan: Plan, state: RunState, yardsticks: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return sentences about what was kept, none where all is well.

    `yardsticks` are {name: {split: score}}, of those that were scored.
    """
    if not state.best or math.isnan(state.best.get("test", math.nan)):
        return []
    sums = state.best.get("sums", {})
    said = [_one_class(sums.get("validation", {}))]
    if not said[0]:
        said = [_untrained(plan, state), _at_chance(plan, state, sums.get("validation", {}), yardsticks)]
    return [each for each in said if each]


def _untrained(plan: Plan, state: RunState) -> str:
    if state.best["round"] or not state.round:
        return ""
    judged, rounds = plan.task.metric, f"{state.round} round{'s' * (state.round > 1)}"
    more = "evaluation.metric=average_precision (or macro_f1), " if judged == "accuracy" else ""
    rare = ", or task.class_weights=balanced where a class is rare" if hasattr(plan.task, "class_weights") else ""
    return (
        f"The untrained model is kept: {judged} on validation was best in round 0, and none of {rounds} was better. "
        f"Try {more}more rounds, another training.learning_rate{rare}."
    )


def _one_class(sums: Sums) -> str:
    """Say that all validation examples are of one class."""
    classes = [name for name in sums if name.startswith("true_") and sums[name]]
    if len(classes) != 1 or not sums.get("count"):
        return ""
    return (
        f"All {int(sums['count'])} validation examples are of one class: the score means nothing. At least two classes "
        "are needed; see which column data.label names."
    )


def _at_chance(plan: Plan, state: RunState, sums: Sums, yardsticks: Mapping[str, Mapping[str, float]]) -> str:
    """Say that the kept model's score is no better than what needs no model."""
    metric, score = plan.task.metric, float(state.best["validation"])
    chance = _chance(metric, sums)
    if chance is not None:
        value, what = chance
        if score <= value + NO_BETTER * (1 - value):
            return f"The score is at chance: {metric} {score:.4f} on validation, where {what} has {value:.4f}."
        return ""
    for name, scores in yardsticks.items():
        if "majority" in name and plan.task.better == "higher" and score <= scores.get("validation", -math.inf):
            return f"The score is at chance: {metric} {score:.4f} on validation; the yardstick {name} has as much."
    return ""


def _chance(metric: str, sums: Sums) -> tuple[float, str] | None:
    """Return what a constant answer has, and what it is called; None where the sums do not tell."""
    if metric == "r2":
        return 0.0, "the mean"
    true = [value for name, value in sums.items() if name.startswith("true_")]
    if not true or not sum(true):
        return None
    shares = [value / sum(true) for value in true]
    constant = {
        "accuracy": (max(shares), "the most frequent class"),
        "balanced_accuracy": (1 / sum(share > 0 for share in shares), "one class for all"),
        "auc": (0.5, "guessing"),
        "average_precision": (min(shares), "guessing"),
    }
    return constant.get(metric) if metric != "average_precision" or len(true) == 2 else None
